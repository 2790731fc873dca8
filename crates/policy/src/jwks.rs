//! JSON Web Key Sets (RFC 7517), as identity providers publish them.
//!
//! The algorithm of a key follows from its type, never from a token, so a public key cannot become a shared secret.
//! Keys for other purposes and of unsupported algorithms are skipped. An unusable signing key is an error, because
//! all of its tokens would be refused.

use serde_json::{Map, Value};

use crate::check::words::quoted;
use crate::model::{JwtAlgorithm, JwtKey, KeyMaterial, MAX_JWT_KEYS};

/// The shortest RSA modulus that the verifier accepts.
const SHORTEST_RSA_BYTES: usize = 256;

/// Why a text is not a JSON Web Key Set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JwksError(String);

impl JwtKey {
    /// Reads a JSON Web Key Set: `{"keys": [{"kty": "RSA", "kid": "..", ..}, ..]}`.
    pub fn from_jwks(text: &[u8]) -> Result<Vec<JwtKey>, JwksError> {
        let parsed = serde_json::from_slice::<Value>(text);
        let parsed = parsed.map_err(|error| JwksError(format!("it is not valid JSON: {error}")))?;
        let Value::Object(set) = parsed else { return Err(JwksError("it is not a JSON object".to_owned())) };
        let Some(Value::Array(listed)) = set.get("keys") else {
            return Err(JwksError("the list `keys` is missing".to_owned()));
        };
        let mut keys = Vec::new();
        for (at, value) in listed.iter().enumerate() {
            keys.extend(read_key(value).map_err(|why| JwksError(format!("key {}: {why}", name(value, at))))?);
        }
        match keys.len() {
            0 => Err(JwksError("none of its keys is a signing key of a supported algorithm".to_owned())),
            1..=MAX_JWT_KEYS => Ok(keys),
            more => Err(JwksError(format!("it has {more} signing keys, and at most {MAX_JWT_KEYS} are supported"))),
        }
    }
}

/// The name of a key in messages.
fn name(key: &Value, at: usize) -> String {
    key.get("kid").and_then(Value::as_str).map_or_else(|| format!("number {}", at + 1), quoted)
}

/// Reads one key; `None` for a key that does not sign tokens of a supported algorithm.
fn read_key(value: &Value) -> Result<Option<JwtKey>, String> {
    let Value::Object(members) = value else { return Err("it is not an object".to_owned()) };
    if !is_for_signatures(members) {
        return Ok(None);
    }
    let kid = match members.get("kid") {
        None => None,
        Some(Value::String(kid)) if !kid.is_empty() => Some(kid.clone()),
        Some(_) => return Err("`kid` is not a string".to_owned()),
    };
    let found = match text(members, "kty")? {
        "RSA" => rsa(members)?,
        "EC" => elliptic(members)?,
        "OKP" => edwards(members)?,
        "oct" => shared(members)?,
        _ => None,
    };
    Ok(found.map(|(algorithm, key)| JwtKey { kid, algorithm, key }))
}

fn is_for_signatures(members: &Map<String, Value>) -> bool {
    let is_used = members.get("use").is_none_or(|used| used == "sig");
    let verifies = |operations: &Vec<Value>| operations.iter().any(|operation| operation == "verify");
    is_used && members.get("key_ops").and_then(Value::as_array).is_none_or(verifies)
}

type KeyResult = Result<Option<(JwtAlgorithm, KeyMaterial)>, String>;

fn rsa(members: &Map<String, Value>) -> KeyResult {
    let algorithm = match members.get("alg").map(|alg| alg.as_str().unwrap_or_default()) {
        None | Some("RS256") => JwtAlgorithm::Rs256,
        Some("RS384") => JwtAlgorithm::Rs384,
        Some("RS512") => JwtAlgorithm::Rs512,
        Some(_) => return Ok(None),
    };
    let (n, e) = (bytes(members, "n")?, bytes(members, "e")?);
    let n = n[n.iter().take_while(|byte| **byte == 0).count()..].to_vec();
    if n.len() < SHORTEST_RSA_BYTES {
        return Err(format!(
            "the modulus has {} bits, and at least {} are required",
            8 * n.len(),
            8 * SHORTEST_RSA_BYTES
        ));
    }
    Ok(Some((algorithm, KeyMaterial::Rsa { n, e })))
}

fn elliptic(members: &Map<String, Value>) -> KeyResult {
    let (algorithm, alg, length) = match text(members, "crv")? {
        "P-256" => (JwtAlgorithm::Es256, "ES256", 32),
        "P-384" => (JwtAlgorithm::Es384, "ES384", 48),
        _ => return Ok(None),
    };
    match members.get("alg").and_then(Value::as_str) {
        None => {}
        Some(other) if other == alg => {}
        Some("ES256" | "ES384" | "ES512") => return Err("`alg` does not match the curve".to_owned()),
        Some(_) => return Ok(None),
    }
    let (x, y) = (bytes(members, "x")?, bytes(members, "y")?);
    if x.len() != length || y.len() != length {
        return Err(format!("the coordinates must have {length} bytes"));
    }
    Ok(Some((algorithm, KeyMaterial::Point([&[4][..], &x, &y].concat()))))
}

fn edwards(members: &Map<String, Value>) -> KeyResult {
    let is_known = matches!(members.get("alg").map(|alg| alg.as_str()), None | Some(Some("EdDSA" | "Ed25519")));
    if text(members, "crv")? != "Ed25519" || !is_known {
        return Ok(None);
    }
    let x = bytes(members, "x")?;
    if x.len() != 32 {
        return Err("`x` must have 32 bytes".to_owned());
    }
    Ok(Some((JwtAlgorithm::EdDsa, KeyMaterial::Point(x))))
}

fn shared(members: &Map<String, Value>) -> KeyResult {
    let algorithm = match text(members, "alg") {
        Ok("HS256") => JwtAlgorithm::Hs256,
        Ok("HS384") => JwtAlgorithm::Hs384,
        Ok("HS512") => JwtAlgorithm::Hs512,
        Ok(_) => return Ok(None),
        Err(_) => return Err("a shared secret needs `alg`".to_owned()),
    };
    Ok(Some((algorithm, KeyMaterial::Written(bytes(members, "k")?))))
}

fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Result<&'m str, String> {
    members.get(name).and_then(Value::as_str).ok_or_else(|| format!("the string `{name}` is missing"))
}

fn bytes(members: &Map<String, Value>, name: &str) -> Result<Vec<u8>, String> {
    let decoded = from_base64url(text(members, name)?).filter(|bytes| !bytes.is_empty());
    decoded.ok_or_else(|| format!("`{name}` is not base64url"))
}

/// Decodes base64url. Keys are written without padding; padding at the end is accepted.
fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in chunk {
            bits = bits << 6 | value_of(*digit)?;
        }
        bits <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

fn value_of(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keys: &str) -> Result<Vec<JwtKey>, String> {
        JwtKey::from_jwks(format!(r#"{{"keys":[{keys}]}}"#).as_bytes()).map_err(|error| error.to_string())
    }

    /// The secret of RFC 7517, appendix A.3, cut to 32 bytes.
    const SECRET: &str = r#""k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr4""#;
    /// A key of RFC 8037, appendix A.2.
    const EDWARDS: &str =
        r#"{"kty":"OKP","crv":"Ed25519","kid":"ed","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

    #[test]
    fn base64url_is_decoded() {
        for (text, bytes) in [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_8", b"\xfb\xff")] {
            assert_eq!(from_base64url(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zm9vZ", "Zm+v", "Zm 9", "é"] {
            assert_eq!(from_base64url(text), None, "{text}");
        }
    }

    #[test]
    fn key_type_determines_the_algorithm() {
        let keys = read(&format!(r#"{EDWARDS},{{"kty":"oct","alg":"HS256",{SECRET}}}"#)).unwrap();
        assert_eq!(
            keys.iter().map(|key| key.algorithm).collect::<Vec<_>>(),
            [JwtAlgorithm::EdDsa, JwtAlgorithm::Hs256]
        );
        assert_eq!(keys[0].kid.as_deref(), Some("ed"));
        // A public key with the algorithm of a shared secret is skipped.
        assert!(read(&EDWARDS.replace(r#""kid""#, r#""alg":"HS256","kid""#)).is_err());
    }

    #[test]
    fn other_keys_are_skipped_and_broken_keys_are_reported() {
        let elsewhere = r#"{"kty":"RSA","use":"enc","n":"AA","e":"AQAB"},{"kty":"EC","crv":"P-521"},{"kty":"new"},
            {"kty":"RSA","alg":"PS256"},{"kty":"oct","key_ops":["sign"]}"#;
        assert_eq!(read(&format!("{elsewhere},{EDWARDS}")).unwrap().len(), 1);
        let short = EDWARDS.replace("HURo", "");
        for (keys, why) in [
            ("", "none of its keys"),
            (elsewhere, "none of its keys"),
            ("7", "key number 1: it is not an object"),
            ("{}", "the string `kty` is missing"),
            (r#"{"kty":"oct","k":"AAAA"}"#, "a shared secret needs `alg`"),
            (r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, "the modulus has 24 bits"),
            (r#"{"kty":"RSA","n":"A!","e":"AQAB"}"#, "`n` is not base64url"),
            (r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}"#, "must have 32 bytes"),
            (r#"{"kty":"EC","crv":"P-256","alg":"ES384","x":"AAAA","y":"AAAA"}"#, "does not match the curve"),
            (&short, "key `ed`: `x` must have 32 bytes"),
        ] {
            let error = read(keys).unwrap_err();
            assert!(error.contains(why), "{keys}: {error}");
        }
        let many = vec![EDWARDS; MAX_JWT_KEYS + 1].join(",");
        assert!(read(&many).unwrap_err().contains("17 signing keys"));
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, "{\"keys\":["] {
            assert!(JwtKey::from_jwks(text.as_bytes()).is_err(), "{text}");
        }
    }
}
