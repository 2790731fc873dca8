//! Replaces credentials in the text of a policy and in messages about it.
//!
//! A policy names the files and variables of its own secrets, and an inline password is an error. What remains are the
//! values of clients' credentials (a denied API key), and credentials that a person left in a comment or in an address.

use tollgate::policy::CheckedPolicy;
use tollgate::policy::model::{AccessList, Condition, Identity, IdentitySource, TextPattern, TierSource};

/// The text in place of a credential.
const HIDDEN: &str = "[hidden]";

/// Names of members whose values are credentials.
const SECRET_MEMBERS: [&str; 6] = ["password", "passphrase", "passwd", "secret", "private_key", "token"];

/// Parts of names of headers and identities whose values are treated as credentials.
const SECRET_NAMES: [&str; 6] = ["key", "token", "secret", "auth", "cookie", "session"];

/// The credentials of clients that a policy names.
#[derive(Clone, Debug, Default)]
pub(super) struct SecretValues {
    /// Values that stand in the file itself, the longest first.
    inline: Vec<String>,
    /// Values that may stand in the file, or in another that it names.
    listed: Vec<String>,
}

impl SecretValues {
    pub(super) fn of(policy: &CheckedPolicy) -> SecretValues {
        let is_secret = |name: &str| is_secret_identity(&policy.identities, name);
        let mut inline = Vec::new();
        for list in [&policy.deny, &policy.allow] {
            add_listed(list, &is_secret, &mut inline);
        }
        for rule in &policy.rules {
            for (name, condition) in &rule.when.headers {
                add_condition(condition, has_secret_name(name), &mut inline);
            }
            for (name, condition) in &rule.when.identities {
                add_condition(condition, is_secret(name), &mut inline);
            }
            for key in &rule.overrides {
                let parts = rule.key.iter().zip(&key.key).filter(|(name, _)| is_secret(name));
                inline.extend(parts.map(|(_, pattern)| pattern.0.clone()));
            }
        }
        let mut listed = Vec::new();
        if let Some(TierSource::Listed { by, tiers }) = policy.tier.as_ref().map(|tier| &tier.source)
            && is_secret(by)
        {
            listed.extend(tiers.iter().map(|(value, _)| value.clone()));
        }
        for values in [&mut inline, &mut listed] {
            // A pattern of wildcards alone names no client.
            values.retain(|value| value.chars().any(|letter| letter != '*'));
            values.sort_by_key(|value| std::cmp::Reverse(value.len()));
            values.dedup();
        }
        SecretValues { inline, listed }
    }

    /// Returns a text without credentials; `None` if a credential of the policy is not found in it, because the text has
    /// it in another form.
    pub(super) fn redacted(&self, text: &str) -> Option<String> {
        let mut redacted = text.to_owned();
        let are_found = self.inline.iter().all(|value| has_word(text, value));
        for value in self.inline.iter().chain(&self.listed) {
            redacted = without_word(&redacted, value);
        }
        are_found.then(|| redacted_message(&redacted))
    }

    /// Returns a message without credentials. It may quote any line of a file.
    pub(super) fn redacted_message(&self, message: &str) -> String {
        let values = self.inline.iter().chain(&self.listed);
        let message = values.fold(message.to_owned(), |message, value| without_word(&message, value));
        redacted_message(&message)
    }
}

fn is_secret_identity(identities: &[Identity], name: &str) -> bool {
    let declared = identities.iter().find(|identity| identity.name == name);
    let is_secret = |identity: &Identity| match &identity.source {
        IdentitySource::Header(header) | IdentitySource::Query(header) => has_secret_name(header),
        // Declared before, so this ends.
        IdentitySource::First(names) => {
            names.iter().any(|other| other != name && is_secret_identity(identities, other))
        }
        _ => false,
    };
    has_secret_name(name) || declared.is_some_and(|identity| identity.is_secret() || is_secret(identity))
}

fn has_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn add_listed(list: &AccessList, is_secret: &impl Fn(&str) -> bool, values: &mut Vec<String>) {
    let secret = list.identities.iter().filter(|(name, _)| is_secret(name));
    values.extend(secret.flat_map(|(_, patterns)| patterns).map(|pattern| pattern.0.clone()));
}

fn add_condition(condition: &Condition, is_secret: bool, values: &mut Vec<String>) {
    let patterns: [&[TextPattern]; 2] = match condition {
        Condition::OneOf(patterns) if is_secret => [patterns, &[]],
        Condition::OneOfBut { these, but_not } if is_secret => [these, but_not],
        _ => return,
    };
    values.extend(patterns.into_iter().flatten().map(|pattern| pattern.0.clone()));
}

/// Returns a text without addresses that contain a password, and without values of secret members.
fn redacted_message(text: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        redacted.push_str(&without_member_values(&without_user_info(line)));
    }
    redacted
}

/// Replaces `user:password@` in addresses, with and without a scheme.
fn without_user_info(line: &str) -> String {
    let mut redacted = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('@') {
        let (before, after) = rest.split_at(at);
        let is_border = |letter: char| letter.is_whitespace() || "\"'`[]{},<>".contains(letter);
        let begin = before.rfind(is_border).map_or(0, |border| border + 1);
        let begin = before[begin..].rfind("//").map_or(begin, |slashes| begin + slashes + 2);
        if before[begin..].contains(':') {
            redacted.push_str(&before[..begin]);
            redacted.push_str(HIDDEN);
        } else {
            redacted.push_str(before);
        }
        redacted.push('@');
        rest = &after[1..];
    }
    redacted.push_str(rest);
    redacted
}

/// Replaces the values of members such as `password`, in block and flow style and in comments.
fn without_member_values(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut redacted = String::with_capacity(line.len());
    let mut copied = 0;
    for (at, _) in lower.match_indices([':', '=']) {
        let name = lower[..at].trim_end_matches(['"', '\'', ' ']);
        let is_secret = SECRET_MEMBERS.iter().any(|member| {
            name.strip_suffix(member)
                .is_some_and(|before| !before.ends_with(|letter: char| letter.is_ascii_alphanumeric()))
        });
        let value = line[at + 1..].trim_start();
        let begin = line.len() - value.len();
        if !is_secret || at < copied || is_harmless(value) {
            continue;
        }
        let length = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].find(quote).map_or(value.trim_end().len(), |end| end + 2),
            _ => value.find([',', '}', ']']).unwrap_or_else(|| value.trim_end().len()),
        };
        redacted.push_str(&line[copied..begin]);
        redacted.push_str(HIDDEN);
        copied = begin + length;
    }
    redacted.push_str(&line[copied..]);
    redacted
}

/// Whether a value is no credential: a boolean, a mapping, a list, or nothing.
fn is_harmless(value: &str) -> bool {
    let word = value.split([',', '}', ']', '#', '\n', '\r']).next().unwrap_or_default().trim();
    matches!(word, "" | "true" | "false" | HIDDEN) || word.starts_with(['{', '[']) || value.starts_with(HIDDEN)
}

fn has_word(text: &str, word: &str) -> bool {
    words(text, word).next().is_some()
}

fn without_word(text: &str, word: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut copied = 0;
    for at in words(text, word) {
        redacted.push_str(&text[copied..at]);
        redacted.push_str(HIDDEN);
        copied = at + word.len();
    }
    redacted.push_str(&text[copied..]);
    redacted
}

/// Returns where a word occurs that is not part of a longer one.
fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| !is_part(text[..*at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use tollgate::policy::parse;

    use super::*;

    fn redacted(text: &str) -> Option<String> {
        let text = format!("version: 1\n{text}\nrules: [{{ name: a, limit: 1/s }}]\n");
        let loaded = parse(&text, "policy.yaml", None).unwrap_or_else(|report| panic!("{report}"));
        SecretValues::of(&loaded.policy).redacted(&text)
    }

    #[test]
    fn policy_without_credentials_is_unchanged() {
        let text =
            "identity: { user: { header: X-User, trusted: true }, api_key: { header: X-API-Key, secret: true } }";
        assert!(redacted(text).unwrap().contains(text));
        let text = tollgate::policy::STARTER;
        let loaded = parse(text, "policy.yaml", None).unwrap();
        assert_eq!(SecretValues::of(&loaded.policy).redacted(text).as_deref(), Some(text));
    }

    #[test]
    fn denied_credentials_of_clients_are_hidden() {
        let text = redacted(
            "identity: { api_key: { header: X-Client, secret: true }, user: { header: X-User, trusted: true } }\n\
             deny: { api_key: [sk-live-4242, sk-live-42], user: [mallory] }",
        )
        .unwrap();
        assert!(!text.contains("4242") && !text.contains("live"), "{text}");
        assert!(text.contains("[[hidden], [hidden]], user: [mallory]"), "{text}");
    }

    #[test]
    fn text_with_a_credential_in_another_form_is_withheld() {
        let text = "identity: { api_key: { header: X-Client, secret: true } }\ndeny: { api_key: [\"sk\\x2dlive\"] }";
        assert_eq!(redacted(text), None);
    }

    #[test]
    fn passwords_in_addresses_and_comments_are_hidden() {
        for (line, expected) in [
            ("# was redis://app:hunter2@10.0.0.1:6379/0", "# was redis://[hidden]@10.0.0.1:6379/0"),
            ("nodes: [app:hunter2@a:1, b:2]", "nodes: [[hidden]@a:1, b:2]"),
            ("# mail ops@example.com", "# mail ops@example.com"),
            ("  password: hunter2", "  password: [hidden]"),
            ("{ password: 'hunter, 2', tls: true }", "{ password: [hidden], tls: true }"),
            ("# REDIS_PASSWORD=hunter2", "# REDIS_PASSWORD=[hidden]"),
            ("password_env: REDIS_PASSWORD", "password_env: REDIS_PASSWORD"),
            ("key: { header: X, secret: true }", "key: { header: X, secret: true }"),
            ("3 | \"password\" : \"hunter2\" # ..", "3 | \"password\" : [hidden] # .."),
        ] {
            assert_eq!(redacted_message(line), expected);
        }
    }
}
