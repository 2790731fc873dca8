//! Claims of signed tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};

use super::unusable::Unusable;
use crate::model::{JwtAlgorithm, JwtKey};
use crate::plan::CompileError;

/// How far the clocks of issuer and verifier may be apart.
const LEEWAY_S: u64 = 60;

/// Verifies tokens with one key and one algorithm.
pub(crate) struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

/// What a token says.
pub(crate) struct Claims(Map<String, Value>);

/// Whether this program can read tokens at all.
pub(crate) fn require() -> Result<(), CompileError> {
    Ok(())
}

impl Verifier {
    /// Only the algorithm of the policy counts, whatever a token says of itself.
    pub(crate) fn new(key: &JwtKey) -> Result<Verifier, CompileError> {
        let mut validation = Validation::new(algorithm(key.algorithm));
        // Times are checked here, with the time of the request.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        validation.validate_aud = key.audience.is_some();
        if let Some(issuer) = &key.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        if let Some(audience) = &key.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        Ok(Verifier { key: decoding_key(key)?, validation })
    }

    /// The claims of a token that is signed with the key and valid now, or why it has none.
    pub(crate) fn verified(&self, token: &[u8], unix_time_s: Option<u64>) -> Result<Claims, Unusable> {
        let decoded = jsonwebtoken::decode(token, &self.key, &self.validation);
        let claims: Map<String, Value> = decoded.map_err(|error| reason(&error))?.claims;
        let now_s = unix_time_s.unwrap_or_else(system_time_s);
        let expired = |expiry_s: u64| expiry_s.saturating_add(LEEWAY_S) <= now_s;
        let early = |start_s: u64| start_s > now_s.saturating_add(LEEWAY_S);
        let time = |name: &str| claim_time_s(&claims, name).ok_or(Unusable::Malformed);
        if time("exp")?.is_some_and(expired) {
            Err(Unusable::Expired)
        } else if time("nbf")?.is_some_and(early) {
            Err(Unusable::NotYetValid)
        } else {
            Ok(Claims(claims))
        }
    }
}

fn reason(error: &Error) -> Unusable {
    match error.kind() {
        ErrorKind::InvalidSignature => Unusable::BadSignature,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => Unusable::OtherAlgorithm,
        ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience | ErrorKind::MissingRequiredClaim(_) => {
            Unusable::NotForUs
        }
        _ => Unusable::Malformed,
    }
}

/// Never shows the key.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

/// The claims of a token that somebody in front has verified. One that says it is not signed at all has none.
pub(crate) fn unverified(token: &[u8]) -> Result<Claims, Unusable> {
    let decoded = jsonwebtoken::dangerous::insecure_decode(token);
    decoded.map(|token| Claims(token.claims)).map_err(|error| reason(&error))
}

impl Claims {
    /// A claim as text. Lists and objects are no identities.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// A time that a token names: `Some(None)` if it names none, `None` if what it names is no time.
fn claim_time_s(claims: &Map<String, Value>, name: &str) -> Option<Option<u64>> {
    let Some(time) = claims.get(name) else { return Some(None) };
    // Fractions of a second are allowed (RFC 7519) and do not matter beside the leeway. Casts stop at the ends.
    time.as_u64().or_else(|| time.as_f64().map(|seconds| seconds as u64)).map(Some)
}

fn system_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn algorithm(algorithm: JwtAlgorithm) -> Algorithm {
    match algorithm {
        JwtAlgorithm::Hs256 => Algorithm::HS256,
        JwtAlgorithm::Hs384 => Algorithm::HS384,
        JwtAlgorithm::Hs512 => Algorithm::HS512,
        JwtAlgorithm::Rs256 => Algorithm::RS256,
        JwtAlgorithm::Rs384 => Algorithm::RS384,
        JwtAlgorithm::Rs512 => Algorithm::RS512,
        JwtAlgorithm::Es256 => Algorithm::ES256,
        JwtAlgorithm::Es384 => Algorithm::ES384,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
    }
}

fn decoding_key(key: &JwtKey) -> Result<DecodingKey, CompileError> {
    use JwtAlgorithm::{EdDsa, Es256, Es384, Hs256, Hs384, Hs512, Rs256, Rs384, Rs512};
    let unusable = |reason: String| CompileError::JwtKey { reason };
    let public = |read: Result<DecodingKey, jsonwebtoken::errors::Error>| {
        read.map_err(|error| unusable(format!("expected a public key in PEM for {:?}: {error}", key.algorithm)))
    };
    match key.algorithm {
        Hs256 | Hs384 | Hs512 if key.key.is_empty() => Err(unusable("the shared secret is empty".to_owned())),
        Hs256 | Hs384 | Hs512 => Ok(DecodingKey::from_secret(&key.key)),
        Rs256 | Rs384 | Rs512 => public(DecodingKey::from_rsa_pem(&key.key)),
        Es256 | Es384 => public(DecodingKey::from_ec_pem(&key.key)),
        EdDsa => public(DecodingKey::from_ed_pem(&key.key)),
    }
}
