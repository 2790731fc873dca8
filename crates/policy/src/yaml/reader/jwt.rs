use super::Reader;
use super::members::Members;
use crate::check::codes;
#[cfg(feature = "jwks")]
use crate::check::words::quoted;
use crate::model::{JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial};
use crate::yaml::shape;
use crate::yaml::tree::Node;

const ALGORITHMS: [(&str, JwtAlgorithm); 9] = [
    ("HS256", JwtAlgorithm::Hs256),
    ("HS384", JwtAlgorithm::Hs384),
    ("HS512", JwtAlgorithm::Hs512),
    ("RS256", JwtAlgorithm::Rs256),
    ("RS384", JwtAlgorithm::Rs384),
    ("RS512", JwtAlgorithm::Rs512),
    ("ES256", JwtAlgorithm::Es256),
    ("ES384", JwtAlgorithm::Es384),
    ("EdDSA", JwtAlgorithm::EdDsa),
];

impl Reader<'_> {
    pub(super) fn jwt(&mut self, top: &Members<'_>) -> Option<JwtSettings> {
        let node = top.get("jwt")?;
        self.broken.jwt = true;
        let members = self.members(node, &shape::JWT)?;
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
        let members = self.members(node, &shape::JWT_KEY)?;
        let kid = members.get("kid").map(|node| self.text(node, "the name of a key"));
        let key = self.jwt_key(&members, kid.clone().flatten());
        key.filter(|_| kid.is_none_or(|kid| kid.is_some()))
    }

    fn jwt_key(&mut self, members: &Members<'_>, kid: Option<String>) -> Option<JwtKey> {
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &ALGORITHMS));
        let key = self.key(members);
        Some(JwtKey { kid, algorithm: algorithm?, key: KeyMaterial::Written(key?) })
    }

    #[cfg(feature = "jwks")]
    fn jwks_file(&mut self, node: &Node) -> Option<Vec<JwtKey>> {
        let name = self.text(node, "the name of a file")?;
        let (path, text) = self.file(&name, node.span)?;
        match JwtKey::from_jwks(&text) {
            Ok(keys) => Some(keys),
            Err(why) => {
                let message = format!("the file {} is no set of keys: {why}", quoted(&path.display().to_string()));
                let hint = "a set of keys is a JSON object such as {\"keys\": [{\"kty\": \"RSA\", \"kid\": .., \"n\": .., \"e\": ..}]}";
                self.error(codes::BAD_JWKS, node.span, message, hint);
                None
            }
        }
    }

    /// A program that cannot verify tokens has no use for their keys.
    #[cfg(not(feature = "jwks"))]
    fn jwks_file(&mut self, node: &Node) -> Option<Vec<JwtKey>> {
        let message = "this program was built without the feature `jwt`, so it cannot read keys of tokens";
        self.error(codes::JWT_NOT_BUILT, node.span, message, "build it with the feature");
        None
    }
}
