use super::Reader;
use super::members::Members;
use crate::model::{JwtAlgorithm, JwtKey};
use crate::yaml::shape;

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
    pub(super) fn jwt(&mut self, top: &Members<'_>) -> Option<JwtKey> {
        let node = top.get("jwt")?;
        self.broken.jwt = true;
        let members = self.members(node, &shape::JWT)?;
        let algorithm = members.get("algorithm").and_then(|node| self.word(node, &ALGORITHMS));
        let from_variable = members.get("key_env").and_then(|node| self.secret_variable(node));
        let key = from_variable.or_else(|| members.get("key_file").and_then(|node| self.secret_file(node)));
        let mut text = |name: &str| members.get(name).and_then(|node| self.text(node, "a text"));
        let (issuer, audience) = (text("issuer"), text("audience"));
        let key = JwtKey { algorithm: algorithm?, key: key?, issuer, audience };
        self.broken.jwt = false;
        Some(key)
    }
}
