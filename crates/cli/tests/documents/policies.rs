//! The policies that pages show: whole files, and parts of them.

/// The members of a policy file.
const MEMBERS: [&str; 13] = [
    "identity:",
    "jwt:",
    "secrets:",
    "deny:",
    "allow:",
    "budgets:",
    "rules:",
    "paths:",
    "headers:",
    "reset:",
    "jitter:",
    "store:",
    "regions:",
];

/// Completes the part of a policy that a page shows; `None` for YAML of other programs.
pub(crate) fn complete(text: &str) -> Option<String> {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    if first.starts_with("version: 1") {
        return Some(text.to_owned());
    }
    if first.starts_with("- name:") || first.starts_with("- {") && first.contains("name:") {
        let rules: String = text.lines().map(|line| format!("  {line}\n")).collect();
        return Some(format!("version: 1\n{}rules:\n{rules}", identities(text)));
    }
    let is_policy = MEMBERS.iter().any(|member| first.starts_with(member));
    let rules = if has_member(text, "rules:") { "" } else { "rules: [{ name: a, key: client_ip, limit: 1/s }]\n" };
    is_policy.then(|| format!("version: 1\n{}{rules}{text}", identities(text)))
}

/// Identities that the rules of a part may count by.
fn identities(text: &str) -> &'static str {
    if has_member(text, "identity:") {
        return "";
    }
    "identity:\n  user: { header: X-User, trusted: true }\n  api_key: { header: X-Key, trusted: true }\n  \
     tier: { header: X-Tier, default: free, trusted: true }\n"
}

fn has_member(text: &str, member: &str) -> bool {
    text.lines().any(|line| line.starts_with(member))
}

/// Compares the result of `validate` with what the page says. A part of a policy may have any warnings.
pub(crate) fn check(line: usize, code: Option<&str>, output: &str, warnings: Option<&[String]>) -> Result<(), String> {
    if code != Some("0") {
        return Err(format!("{line}: the policy is not valid:\n{output}"));
    }
    let mut found: Vec<&str> = output.lines().filter_map(warning).collect();
    found.sort_unstable();
    found.dedup();
    let Some(warnings) = warnings else { return Ok(()) };
    let mut expected: Vec<&str> = warnings.iter().map(String::as_str).collect();
    expected.sort_unstable();
    if found == expected { Ok(()) } else { Err(format!("{line}: expected the warnings {expected:?}:\n{output}")) }
}

/// The code of a warning, which ends its line.
fn warning(line: &str) -> Option<&str> {
    let (_, message) = line.split_once(": warning: ")?;
    message.strip_suffix(']')?.rsplit_once('[').map(|(_, code)| code)
}

#[test]
fn fragment_is_completed_to_a_policy() {
    for (part, expected) in [
        ("# a\nversion: 1\nrules: []\n", Some("# a\nversion: 1\n")),
        ("- name: a\n  limit: 1/s\n", Some("rules:\n  - name: a\n    limit: 1/s\n")),
        ("store: { memory: {} }\n", Some("limit: 1/s }]\nstore: { memory: {} }\n")),
        ("scrape_configs: []\n", None),
    ] {
        let complete = complete(part);
        assert_eq!(complete.is_some(), expected.is_some(), "{part}");
        assert!(complete.unwrap_or_default().contains(expected.unwrap_or_default()), "{part}");
    }
}

#[test]
fn unexpected_and_missing_warnings_are_problems() {
    let output = "a.yaml:3:1: warning: no limit [avoidable]\n";
    let expected = |warnings: &[&str]| warnings.iter().map(|&code| code.to_owned()).collect::<Vec<_>>();
    assert!(check(1, Some("0"), output, Some(&expected(&["avoidable"]))).is_ok());
    assert!(check(1, Some("0"), output, Some(&expected(&[]))).is_err());
    assert!(check(1, Some("0"), "", Some(&expected(&["avoidable"]))).is_err());
    assert!(check(1, Some("0"), output, None).is_ok());
    assert!(check(1, Some("1"), output, None).is_err());
}
