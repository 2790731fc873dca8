//! Keys that verify tokens and hash secrets, and the files and variables that a policy names.

use std::path::PathBuf;

use super::Reader;
use super::members::Members;
use crate::check::codes;
use crate::check::words::quoted;
use crate::model::{JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial, SecretKey};
use crate::yaml::NamedFile;
use crate::yaml::findings::Span;
use crate::yaml::schema::{Field, Kind, Shape, field, names, required, shape};
use crate::yaml::tree::Node;

const KEY_ENV: Field =
    field("key_env", Kind::Text, "The environment variable with the shared secret or the public key in PEM.");
const KEY_FILE: Field = field("key_file", Kind::Text, "The file with the shared secret or the public key in PEM.");
const NOT_HERE: &[(&str, &str)] = &[("key", "name an environment variable with `key_env`, or a file with `key_file`")];

pub(super) static JWT: Shape = Shape {
    one_of: &["key_env", "key_file", "keys", "jwks_file"],
    refused: NOT_HERE,
    ..shape(
        "jwt",
        "With what the signature of a token is verified.",
        &[
            field(
                "algorithm",
                Kind::Words(&names(&JwtAlgorithm::ALL)),
                "The only algorithm that is accepted; with `key_env` and `key_file`.",
            ),
            KEY_ENV,
            KEY_FILE,
            field(
                "keys",
                Kind::List(&ONE_JWT_KEY, 1),
                "Several keys, each with its algorithm, by the names in tokens.",
            ),
            field("jwks_file", Kind::Text, "The file with a set of keys (JWKS), as identity providers publish it."),
            field("issuer", Kind::Text, "Who must have issued the token (`iss`)."),
            field("audience", Kind::Text, "For whom it must have been issued (`aud`)."),
        ],
    )
};

static ONE_JWT_KEY: Kind = Kind::Object(&JWT_KEY);

/// One of several keys.
pub(super) static JWT_KEY: Shape = Shape {
    one_of: &["key_env", "key_file"],
    refused: NOT_HERE,
    ..shape(
        "jwt_key",
        "One key that signatures are verified with.",
        &[
            field("kid", Kind::Text, "Its name, as tokens say it; without one it is tried with every token."),
            required("algorithm", Kind::Words(&names(&JwtAlgorithm::ALL)), "The only algorithm that it is for."),
            KEY_ENV,
            KEY_FILE,
        ],
    )
};

pub(super) static SECRETS: Shape = Shape {
    one_of: &["key_env", "key_file"],
    refused: NOT_HERE,
    ..shape(
        "secrets",
        "With what the values of secret identities are hashed before they become keys.",
        &[
            field("key_env", Kind::Text, "The environment variable with the key, at least 32 bytes."),
            field("key_file", Kind::Text, "The file with the key, at least 32 bytes."),
        ],
    )
};

impl Reader<'_> {
    pub(super) fn jwt(&mut self, top: &Members<'_>) -> Option<JwtSettings> {
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

    /// One key, several, or a set of them in a file. `None` if one of them cannot be read.
    fn jwt_keys(&mut self, members: &Members<'_>, node: &Node) -> Option<Vec<JwtKey>> {
        let set = members.get("jwks_file");
        let list = members.get("keys");
        if set.is_none() && list.is_none() {
            if members.get("algorithm").is_none() {
                let hint = "add `algorithm`: the only algorithm that is accepted";
                self.error(codes::MISSING_MEMBER, node.span, "`algorithm` is missing in `jwt`", hint);
            }
            return self.jwt_key(members, None).map(|key| vec![key]);
        }
        if members.get("algorithm").is_some() {
            let message = "`algorithm` goes with one key: of several, each has its own";
            self.misplaced(members.name_span("algorithm"), message, "leave it out here");
        }
        if let Some(node) = set {
            return self.jwks_file(node);
        }
        let list = list?;
        self.refuse_empty(list);
        list.items().iter().map(|item| self.listed_jwt_key(item)).collect()
    }

    fn listed_jwt_key(&mut self, node: &Node) -> Option<JwtKey> {
        let members = self.members(node, &JWT_KEY)?;
        let kid = members.get("kid").map(|node| self.text(node, "the name of a key"));
        let key = self.jwt_key(&members, kid.clone().flatten());
        key.filter(|_| kid.is_none_or(|kid| kid.is_some()))
    }

    fn jwt_key(&mut self, members: &Members<'_>, kid: Option<String>) -> Option<JwtKey> {
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &JwtAlgorithm::ALL));
        let key = self.key(members);
        Some(JwtKey { kid, algorithm: algorithm?, key: KeyMaterial::Written(key?) })
    }

    #[cfg(feature = "jwks")]
    fn jwks_file(&mut self, node: &Node) -> Option<Vec<JwtKey>> {
        let name = self.text(node, "the name of a file")?;
        let (path, text) = self.file(&name, node.span)?;
        let wrong = |why| {
            let message = format!("the file {} is no set of keys: {why}", quoted(&path.display().to_string()));
            let hint = "a set of keys is a JSON object such as {\"keys\": [{\"kty\": \"RSA\", \"kid\": .., \"n\": .., \"e\": ..}]}";
            self.error(codes::BAD_JWKS, node.span, message, hint);
        };
        JwtKey::from_jwks(&text).map_err(wrong).ok()
    }

    /// A program that cannot verify tokens has no use for their keys.
    #[cfg(not(feature = "jwks"))]
    fn jwks_file(&mut self, node: &Node) -> Option<Vec<JwtKey>> {
        let message = "this program was built without the feature `jwt`, so it cannot read keys of tokens";
        self.error(codes::JWT_NOT_BUILT, node.span, message, "build it with the feature");
        None
    }

    /// The key with which secret values are hashed.
    pub(super) fn secret_key(&mut self, top: &Members<'_>) -> Option<SecretKey> {
        let members = top.get("secrets").and_then(|node| self.members(node, &SECRETS))?;
        self.key(&members).map(SecretKey)
    }

    /// The content of a file that is named relative to the policy.
    pub(super) fn file(&mut self, name: &str, span: Span) -> Option<(PathBuf, Vec<u8>)> {
        let Some(base_dir) = self.base_dir else {
            let message = format!("the file {} cannot be read here", quoted(name));
            let hint = "this policy was not read from a file, so nothing lies beside it";
            self.error(codes::UNREADABLE_FILE, span, message, hint);
            return None;
        };
        let path = base_dir.join(name);
        let (named, read) = NamedFile::read(path.clone());
        self.files.push(named);
        let wrong = |why| {
            let message = format!("the file {} cannot be read: {why}", quoted(&path.display().to_string()));
            self.error(codes::UNREADABLE_FILE, span, message, "names of files are relative to the policy's own place");
        };
        let bytes = read.map_err(wrong).ok()?;
        Some((path, bytes))
    }

    /// A key out of the variable or the file that a map names.
    pub(super) fn key(&mut self, members: &Members<'_>) -> Option<Vec<u8>> {
        let from_variable = members.get("key_env").and_then(|node| self.secret_variable(node));
        from_variable.or_else(|| members.get("key_file").and_then(|node| self.secret_file(node)))
    }

    /// A secret out of an environment variable. It is never shown.
    fn secret_variable(&mut self, node: &Node) -> Option<Vec<u8>> {
        let name = self.text(node, "the name of an environment variable")?;
        // These would panic or find nothing.
        let is_name = !name.contains(['=', '\0']);
        let value = is_name.then(|| std::env::var_os(&name)).flatten();
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            let message = format!("the environment variable {} is not set, or is empty", quoted(&name));
            self.error(codes::MISSING_SECRET, node.span, message, "set it before the program starts");
            return None;
        };
        Some(value.into_encoded_bytes())
    }

    /// A secret out of a file, without the line end that editors put behind it.
    fn secret_file(&mut self, node: &Node) -> Option<Vec<u8>> {
        let name = self.text(node, "the name of a file")?;
        let (path, mut bytes) = self.file(&name, node.span)?;
        let end = bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
        bytes.truncate(end);
        if bytes.is_empty() {
            let message = format!("the file {} is empty", quoted(&path.display().to_string()));
            self.error(codes::MISSING_SECRET, node.span, message, "put the key into it");
            return None;
        }
        Some(bytes)
    }
}
