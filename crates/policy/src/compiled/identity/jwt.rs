//! Reads and verifies the claims of JSON Web Tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Header, TokenData, Validation};
use serde_json::{Map, Value};

use super::unusable::Unusable;
use crate::compiled::CompileError;
use crate::model::{JwtAlgorithm, JwtKey, JwtSettings, KeyMaterial};

/// The tolerated difference between the clocks of issuer and verifier.
const LEEWAY_S: u64 = 60;

/// Verifies tokens with a set of keys, each of one algorithm.
#[derive(Debug)]
pub(crate) struct Verifier {
    keys: Vec<VerificationKey>,
}

/// One key of a verifier.
struct VerificationKey {
    kid: Option<String>,
    key: DecodingKey,
    validation: Validation,
}

/// The claims of a token.
pub(crate) struct Claims(Map<String, Value>);

impl Verifier {
    pub(crate) fn new(jwt: &JwtSettings) -> Result<Verifier, CompileError> {
        let keys = jwt.keys.iter().map(|key| VerificationKey::new(key, jwt)).collect::<Result<_, _>>()?;
        Ok(Verifier { keys })
    }

    /// Returns the claims of a token that is signed with one of the keys and valid now, or why it is unusable.
    pub(crate) fn verify(&self, token: &[u8], unix_time_s: Option<u64>) -> Result<Claims, Unusable> {
        let claims = self.verify_signature(token)?;
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

    /// Returns the claims of a token that is signed with one of the keys.
    fn verify_signature(&self, token: &[u8]) -> Result<Map<String, Value>, Unusable> {
        if let [only] = self.keys.as_slice()
            && only.kid.is_none()
        {
            return only.claims(token);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|error| unusable_reason(&error))?;
        let mut reason = Unusable::UnknownKey;
        for key in self.keys.iter().filter(|key| key.may_have_signed(&header)) {
            match key.claims(token) {
                Ok(claims) => return Ok(claims),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }
}

fn unusable_reason(error: &Error) -> Unusable {
    match error.kind() {
        ErrorKind::InvalidSignature => Unusable::BadSignature,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => Unusable::WrongAlgorithm,
        ErrorKind::InvalidIssuer | ErrorKind::InvalidAudience | ErrorKind::MissingRequiredClaim(_) => {
            Unusable::WrongIssuerOrAudience
        }
        _ => Unusable::Malformed,
    }
}

impl VerificationKey {
    /// Prepares a key. Only the algorithm of the key is accepted, whatever a token declares.
    fn new(key: &JwtKey, jwt: &JwtSettings) -> Result<VerificationKey, CompileError> {
        let mut validation = Validation::new(algorithm(key.algorithm));
        // `Verifier::verify` checks the times, with the time of the request.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        validation.validate_aud = jwt.audience.is_some();
        if let Some(issuer) = &jwt.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        if let Some(audience) = &jwt.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        Ok(VerificationKey { kid: key.kid.clone(), key: decoding_key(key)?, validation })
    }

    /// Whether a token may be signed with this key, by its algorithm, and by the key's name if both have one.
    fn may_have_signed(&self, header: &Header) -> bool {
        let is_named = match (&self.kid, &header.kid) {
            (Some(own), Some(named)) => own == named,
            _ => true,
        };
        is_named && self.validation.algorithms.contains(&header.alg)
    }

    /// Returns the claims of a token that is signed with this key.
    fn claims(&self, token: &[u8]) -> Result<Map<String, Value>, Unusable> {
        let decoded = jsonwebtoken::decode(token, &self.key, &self.validation);
        reject_critical(decoded.map_err(|error| unusable_reason(&error))?)
    }
}

/// Omits the key.
impl std::fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerificationKey").field("algorithms", &self.validation.algorithms).finish_non_exhaustive()
    }
}

/// Returns the claims of a token that a gateway has verified. A token with algorithm `none` is unusable.
pub(crate) fn decode_unverified(token: &[u8]) -> Result<Claims, Unusable> {
    let decoded = jsonwebtoken::dangerous::insecure_decode(token);
    reject_critical(decoded.map_err(|error| unusable_reason(&error))?).map(Claims)
}

/// Rejects a token with a critical extension (RFC 7515), because none is supported.
fn reject_critical(token: TokenData<Map<String, Value>>) -> Result<Map<String, Value>, Unusable> {
    if token.header.crit.is_some() { Err(Unusable::CriticalExtension) } else { Ok(token.claims) }
}

impl Claims {
    /// Returns a claim as text. Lists and objects cannot be identities.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// Returns the time in a claim: `Some(None)` if the claim is absent, `None` if it is not a time.
fn claim_time_s(claims: &Map<String, Value>, name: &str) -> Option<Option<u64>> {
    let Some(time) = claims.get(name) else { return Some(None) };
    // Fractions of a second are allowed (RFC 7519) and negligible compared with the leeway. Casts saturate.
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
    let prefix = key.kid.as_ref().map_or_else(String::new, |kid| format!("key `{kid}`: "));
    let unusable = |reason: String| CompileError::JwtKey { reason: format!("{prefix}{reason}") };
    let public = |read: Result<DecodingKey, jsonwebtoken::errors::Error>| {
        read.map_err(|error| unusable(format!("expected a public key in PEM for {:?}: {error}", key.algorithm)))
    };
    match (key.algorithm, &key.key) {
        (Hs256 | Hs384 | Hs512, KeyMaterial::Written(secret)) if secret.is_empty() => {
            Err(unusable("the shared secret is empty".to_owned()))
        }
        (Hs256 | Hs384 | Hs512, KeyMaterial::Written(secret)) => Ok(DecodingKey::from_secret(secret)),
        (Rs256 | Rs384 | Rs512, KeyMaterial::Written(pem)) => public(DecodingKey::from_rsa_pem(pem)),
        (Es256 | Es384, KeyMaterial::Written(pem)) => public(DecodingKey::from_ec_pem(pem)),
        (EdDsa, KeyMaterial::Written(pem)) => public(DecodingKey::from_ed_pem(pem)),
        (Rs256 | Rs384 | Rs512, KeyMaterial::Rsa { n, e }) => Ok(DecodingKey::from_rsa_raw_components(n, e)),
        (Es256 | Es384, KeyMaterial::Point(point)) => Ok(DecodingKey::from_ec_der(point)),
        (EdDsa, KeyMaterial::Point(point)) => Ok(DecodingKey::from_ed_der(point)),
        (Hs256 | Hs384 | Hs512 | Es256 | Es384 | EdDsa, KeyMaterial::Rsa { .. })
        | (Hs256 | Hs384 | Hs512 | Rs256 | Rs384 | Rs512, KeyMaterial::Point(_)) => {
            Err(unusable(format!("it is not a key for {:?}", key.algorithm)))
        }
    }
}
