//! Reads keys that verify tokens and hash secrets, and the files and variables that a policy names.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use super::PolicyReader;
use super::members::KnownMembers;
use super::public_key::public_key_problem;
use crate::check::codes;
use crate::check::words::quoted;
use crate::model::{JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial, SecretKey};
use crate::yaml::findings::TextSpan;
use crate::yaml::schema::{MapSchema, MemberSchema, ValueSchema, field, names, required, shape};
use crate::yaml::tree::YamlNode;
use crate::yaml::{MissingSecrets, NamedFile};

const KEY_ENV: MemberSchema =
    field("key_env", ValueSchema::Text, "The environment variable with the shared secret or the public key in PEM.");
const KEY_FILE: MemberSchema =
    field("key_file", ValueSchema::Text, "The file with the shared secret or the public key in PEM.");
const NAME_THE_KEY: &str = "name an environment variable with `key_env`, or a file with `key_file`";
const SECRET_MEMBERS: &[(&str, &str)] =
    &[("key", NAME_THE_KEY), ("secret", NAME_THE_KEY), ("public_key", NAME_THE_KEY)];

pub(super) static JWT: MapSchema = MapSchema {
    one_of: &["key_env", "key_file", "keys", "jwks_file"],
    refused: SECRET_MEMBERS,
    ..shape(
        "jwt",
        "The keys that verify the signatures of tokens.",
        &[
            field(
                "algorithm",
                ValueSchema::Words(&names(&JwtAlgorithm::ALL)),
                "The only algorithm that is accepted, for `key_env` and `key_file`.",
            ),
            KEY_ENV,
            KEY_FILE,
            field(
                "keys",
                ValueSchema::List(&ONE_JWT_KEY, 1),
                "Several keys, each with its algorithm and the `kid` of its tokens.",
            ),
            field(
                "jwks_file",
                ValueSchema::Text,
                "The file with a JSON Web Key Set (JWKS), as identity providers publish it.",
            ),
            field("issuer", ValueSchema::Text, "The required issuer of the token (`iss`)."),
            field("audience", ValueSchema::Text, "The required audience of the token (`aud`)."),
        ],
    )
};

static ONE_JWT_KEY: ValueSchema = ValueSchema::Object(&JWT_KEY);

/// The members of one key of several.
pub(super) static JWT_KEY: MapSchema = MapSchema {
    one_of: &["key_env", "key_file"],
    refused: SECRET_MEMBERS,
    ..shape(
        "jwt_key",
        "A key that verifies the signatures of tokens.",
        &[
            field(
                "kid",
                ValueSchema::Text,
                "The key ID in the header of tokens. A key without one is tried with every token.",
            ),
            required("algorithm", ValueSchema::Words(&names(&JwtAlgorithm::ALL)), "The only algorithm of the key."),
            KEY_ENV,
            KEY_FILE,
        ],
    )
};

pub(super) static SECRETS: MapSchema = MapSchema {
    one_of: &["key_env", "key_file"],
    refused: SECRET_MEMBERS,
    ..shape(
        "secrets",
        "The key that hashes the values of secret identities before they are stored.",
        &[
            field("key_env", ValueSchema::Text, "The environment variable with the key, at least 32 bytes."),
            field("key_file", ValueSchema::Text, "The file with the key, at least 32 bytes."),
        ],
    )
};

impl PolicyReader<'_> {
    pub(super) fn jwt(&mut self, top: &KnownMembers<'_>) -> Option<JwtSettings> {
        let node = top.get("jwt")?;
        self.broken.jwt = true;
        let members = self.members(node, &JWT)?;
        let keys = self.jwt_keys(&members, node);
        let mut text = |name: &str| members.get(name).and_then(|node| self.text(node, "a text"));
        let (issuer, audience) = (text("issuer"), text("audience"));
        let jwt = JwtSettings { keys: keys?, issuer, audience };
        self.broken.jwt = false;
        Some(jwt)
    }

    /// Reads one key, several keys, or a key set in a file. Returns `None` if one of them cannot be read.
    fn jwt_keys(&mut self, members: &KnownMembers<'_>, node: &YamlNode) -> Option<Vec<JwtKey>> {
        let set = members.get("jwks_file");
        let list = members.get("keys");
        if set.is_none() && list.is_none() {
            if members.get("algorithm").is_none() {
                let hint = "add `algorithm`, the only algorithm that is accepted";
                self.error(codes::MISSING_MEMBER, node.span, "`algorithm` is missing in `jwt`", hint);
            }
            return self.jwt_key(members, None).map(|key| vec![key]);
        }
        if members.get("algorithm").is_some() {
            let message = "`algorithm` works only with one key: each of several keys has its own";
            self.misplaced(members.name_span("algorithm"), message, "remove it here");
        }
        if let Some(node) = set {
            if self.skips_secret(members, &["jwks_file"]) {
                let key = KeyMaterial::Written(random_key());
                return Some(vec![JwtKey { kid: None, algorithm: JwtAlgorithm::Hs512, key }]);
            }
            return self.jwks_file(node);
        }
        let list = list?;
        self.refuse_empty(list);
        // All keys are read before the first error ends it, so that all errors are reported.
        let keys: Vec<Option<JwtKey>> = list.items().iter().map(|item| self.listed_jwt_key(item)).collect();
        keys.into_iter().collect()
    }

    fn listed_jwt_key(&mut self, node: &YamlNode) -> Option<JwtKey> {
        let members = self.members(node, &JWT_KEY)?;
        let kid = members.get("kid").map(|node| self.text(node, "the name of a key"));
        let key = self.jwt_key(&members, kid.clone().flatten());
        key.filter(|_| kid.is_none_or(|kid| kid.is_some()))
    }

    fn jwt_key(&mut self, members: &KnownMembers<'_>, kid: Option<String>) -> Option<JwtKey> {
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &JwtAlgorithm::ALL));
        if self.skips_secret(members, &["key_env", "key_file"]) {
            algorithm?;
            return Some(JwtKey { kid, algorithm: JwtAlgorithm::Hs512, key: KeyMaterial::Written(random_key()) });
        }
        let (key, algorithm) = (self.key(members)?, algorithm?);
        if let Some((what, hint)) = public_key_problem(&key, algorithm) {
            let source = ["key_env", "key_file"].into_iter().find_map(|name| Some((name, members.get(name)?)));
            let (name, node) = source?;
            let named = node.scalar().map_or_else(String::new, |scalar| quoted(&scalar.text));
            let kind = if name == "key_env" { "environment variable" } else { "file" };
            self.error(codes::BAD_PUBLIC_KEY, node.span, format!("the key in the {kind} {named} {what}"), hint);
            return None;
        }
        Some(JwtKey { kid, algorithm, key: KeyMaterial::Written(key) })
    }

    #[cfg(feature = "jwks")]
    fn jwks_file(&mut self, node: &YamlNode) -> Option<Vec<JwtKey>> {
        let name = self.text(node, "the name of a file")?;
        let (path, text) = self.file(&name, node.span)?;
        let wrong = |why| {
            let message = format!("the file {} is not a JSON Web Key Set: {why}", quoted(&path.display().to_string()));
            let hint =
                "expected a JSON object such as {\"keys\": [{\"kty\": \"RSA\", \"kid\": .., \"n\": .., \"e\": ..}]}";
            self.error(codes::BAD_JWKS, node.span, message, hint);
        };
        JwtKey::from_jwks(&text).map_err(wrong).ok()
    }

    /// Refuses a key set, because a program without the feature cannot verify tokens.
    #[cfg(not(feature = "jwks"))]
    fn jwks_file(&mut self, node: &YamlNode) -> Option<Vec<JwtKey>> {
        let message = "this program was built without the feature `jwt`, so it cannot read JSON Web Key Sets";
        self.error(codes::JWT_NOT_BUILT, node.span, message, "build the program with the feature `jwt`");
        None
    }

    /// Reads the key that hashes secret values.
    pub(super) fn secret_key(&mut self, top: &KnownMembers<'_>) -> Option<SecretKey> {
        let members = top.get("secrets").and_then(|node| self.members(node, &SECRETS))?;
        if self.skips_secret(&members, &["key_env", "key_file"]) {
            return Some(SecretKey(random_key()));
        }
        self.key(&members).map(SecretKey)
    }

    /// Whether to skip the secret that one of `names` refers to, because it is missing on this machine. Adds a note.
    fn skips_secret(&mut self, members: &KnownMembers<'_>, names: &[&str]) -> bool {
        if self.missing_secrets == MissingSecrets::Refuse {
            return false;
        }
        let named = names.iter().find_map(|name| Some((*name, members.get(name)?)));
        let Some((member, node)) = named else { return false };
        let Some(text) = node.scalar().map(|scalar| &*scalar.text).filter(|text| !text.is_empty()) else {
            return false;
        };
        let message = if member == "key_env" {
            let is_set = text.contains(['=', '\0']) || std::env::var_os(text).is_some_and(|value| !value.is_empty());
            (!is_set).then(|| format!("not checked: the environment variable {} is not set here", quoted(text)))
        } else {
            let path = self.base_dir.map(|base_dir| base_dir.join(text));
            let missing = path.filter(|path| {
                std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            });
            missing.map(|path| {
                format!("not checked: the file {} does not exist here", quoted(&path.display().to_string()))
            })
        };
        let Some(message) = message else { return false };
        self.findings.note(codes::MISSING_SECRET, node.span, message, "the service does not start without it");
        true
    }

    /// Reads a file whose name is relative to the directory of the policy.
    pub(super) fn file(&mut self, name: &str, span: TextSpan) -> Option<(PathBuf, Vec<u8>)> {
        let Some(base_dir) = self.base_dir else {
            let message = format!("the file {} cannot be read: the policy does not come from a file", quoted(name));
            let hint = "file names are relative to the policy file; load the policy from a file, or use an environment variable";
            self.error(codes::UNREADABLE_FILE, span, message, hint);
            return None;
        };
        let path = base_dir.join(name);
        let (named, read) = NamedFile::read(path.clone());
        self.files.push(named);
        let wrong = |why| {
            let message = format!("the file {} cannot be read: {why}", quoted(&path.display().to_string()));
            self.error(codes::UNREADABLE_FILE, span, message, "file names are relative to the directory of the policy");
        };
        let bytes = read.map_err(wrong).ok()?;
        Some((path, bytes))
    }

    /// Reads a key from the variable or the file that a map names.
    pub(super) fn key(&mut self, members: &KnownMembers<'_>) -> Option<Vec<u8>> {
        let from_variable = members.get("key_env").and_then(|node| self.secret_variable(node));
        from_variable.or_else(|| members.get("key_file").and_then(|node| self.secret_file(node)))
    }

    /// Reads a secret from an environment variable. Messages never show it.
    fn secret_variable(&mut self, node: &YamlNode) -> Option<Vec<u8>> {
        let name = self.text(node, "the name of an environment variable")?;
        // Names with these characters would panic or find nothing.
        let is_name = !name.contains(['=', '\0']);
        let value = is_name.then(|| std::env::var_os(&name)).flatten();
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            let message = format!("the environment variable {} is not set or is empty", quoted(&name));
            self.error(codes::MISSING_SECRET, node.span, message, "set the variable before the program starts");
            return None;
        };
        Some(value.into_encoded_bytes())
    }

    /// Reads a secret from a file, without the final line end that editors add.
    fn secret_file(&mut self, node: &YamlNode) -> Option<Vec<u8>> {
        let name = self.text(node, "the name of a file")?;
        let (path, mut bytes) = self.file(&name, node.span)?;
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
        bytes.truncate(end);
        if bytes.is_empty() {
            let message = format!("the file {} is empty", quoted(&path.display().to_string()));
            self.error(codes::MISSING_SECRET, node.span, message, "write the key to the file");
            return None;
        }
        Some(bytes)
    }
}

/// Returns a random key in place of a missing secret. It is unpredictable, so that no token can be signed with it.
fn random_key() -> Vec<u8> {
    let state = RandomState::new();
    (0..8_u64).flat_map(|at| state.hash_one(at).to_le_bytes()).collect()
}
