//! Checks public keys in PEM, so that an unusable key is reported at the line of the policy that names it.

use crate::check::words::quoted;
use crate::model::JwtAlgorithm;
use crate::pem::Lines;

/// The object identifiers of public keys in DER, and the names of their types.
const KEY_TYPES: [(&[u8], &str); 3] = [
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01], "an RSA"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01], "an elliptic curve (EC)"),
    (&[0x2b, 0x65, 0x70], "an Ed25519"),
];

const PUBLIC_FROM_PRIVATE: &str = "write the public key to a file: openssl pkey -in PRIVATE.pem -pubout";

/// Returns what is wrong with the public key of an algorithm, and a hint. The key itself is never part of it.
pub(super) fn public_key_problem(pem: &[u8], algorithm: JwtAlgorithm) -> Option<(String, String)> {
    let wanted = key_type_of(algorithm)?;
    match body_of(pem) {
        Err(problem) => Some(problem),
        Ok((label, der)) => {
            let found = match label.as_str() {
                "RSA PUBLIC KEY" => Some("an RSA"),
                _ => KEY_TYPES
                    .into_iter()
                    .find(|(id, _)| der.windows(id.len()).any(|at| at == *id))
                    .map(|(_, name)| name),
            };
            match found {
                Some(found) if found == wanted => None,
                Some(found) => Some((
                    format!("is {found} key, and {} needs {wanted} key", name_of(algorithm)),
                    "change `algorithm`, or name the key that the issuer signs with".to_owned(),
                )),
                None => Some((
                    format!("is not {wanted} public key"),
                    format!("export the key again, for {}", name_of(algorithm)),
                )),
            }
        }
    }
}

/// The label and the decoded content of a PEM text.
fn body_of(pem: &[u8]) -> Result<(String, Vec<u8>), (String, String)> {
    let wrong = |what: &str, hint: &str| Err((what.to_owned(), hint.to_owned()));
    let export = "export it as PEM: openssl pkey -pubin -in KEY -outform PEM";
    let Ok(text) = std::str::from_utf8(pem) else { return wrong("is not PEM: it is not text", export) };
    let trimmed = text.trim_start();
    if trimmed.starts_with('{') {
        return wrong("is not PEM: it is JSON", "name a JSON Web Key Set with `jwks_file` instead");
    }
    if trimmed.starts_with("ssh-") || trimmed.starts_with("ecdsa-") {
        return wrong("is not PEM: it is an OpenSSH key", "convert it: ssh-keygen -e -m PKCS8 -f KEY.pub");
    }
    let mut lines = Lines::of(pem);
    let label = lines.begin().map(|(_, label)| label);
    let Some(label) = label else {
        return wrong(
            "is not PEM: it has no line `-----BEGIN PUBLIC KEY-----`",
            "write the whole PEM text, with its first and last line",
        );
    };
    if label.ends_with("PRIVATE KEY") {
        return wrong("is a private key, and tokens are verified with the public key", PUBLIC_FROM_PRIVATE);
    }
    if !matches!(label.as_str(), "PUBLIC KEY" | "RSA PUBLIC KEY" | "CERTIFICATE") {
        let what = format!("is PEM with the label {}, not a public key", quoted(&label));
        return Err((what, "expected `-----BEGIN PUBLIC KEY-----`".to_owned()));
    }
    let der = lines.body(&label).map_err(|what| (what, "copy the whole key again".to_owned()))?;
    Ok((label, der))
}

/// The type of key that an algorithm verifies with; `None` for a shared secret.
fn key_type_of(algorithm: JwtAlgorithm) -> Option<&'static str> {
    match algorithm {
        JwtAlgorithm::Hs256 | JwtAlgorithm::Hs384 | JwtAlgorithm::Hs512 => None,
        JwtAlgorithm::Rs256 | JwtAlgorithm::Rs384 | JwtAlgorithm::Rs512 => Some(KEY_TYPES[0].1),
        JwtAlgorithm::Es256 | JwtAlgorithm::Es384 => Some(KEY_TYPES[1].1),
        JwtAlgorithm::EdDsa => Some(KEY_TYPES[2].1),
    }
}

fn name_of(algorithm: JwtAlgorithm) -> &'static str {
    JwtAlgorithm::ALL.into_iter().find(|(_, known)| *known == algorithm).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEADlOmNX5wehdcTrjlv2Ik8sLpfmV2nBBnVlDNHxbd658=\n-----END PUBLIC KEY-----\n";

    #[test]
    fn usable_key_has_no_problem() {
        assert_eq!(public_key_problem(ED25519.as_bytes(), JwtAlgorithm::EdDsa), None);
        assert_eq!(public_key_problem(b"any shared secret", JwtAlgorithm::Hs256), None);
    }

    #[test]
    fn unusable_key_is_described() {
        let ed = ED25519;
        for (pem, algorithm, expected) in [
            (ed.to_owned(), JwtAlgorithm::Rs256, "is an Ed25519 key, and RS256 needs an RSA key"),
            (ed.replace("AyEA", "Ay!EA"), JwtAlgorithm::EdDsa, "line 2 contains `!`"),
            (ed.replace("-----END PUBLIC KEY-----", ""), JwtAlgorithm::EdDsa, "`-----END PUBLIC KEY-----` is missing"),
            (ed.replace("658=", "6"), JwtAlgorithm::EdDsa, "a part of its base64 text is missing"),
            (ed.replace("PUBLIC", "PRIVATE"), JwtAlgorithm::EdDsa, "is a private key"),
            (ed.replace("PUBLIC KEY", "PGP MESSAGE"), JwtAlgorithm::EdDsa, "the label `PGP MESSAGE`"),
            ("{\"keys\": []}".to_owned(), JwtAlgorithm::Rs256, "it is JSON"),
            ("ssh-ed25519 AAAA".to_owned(), JwtAlgorithm::EdDsa, "an OpenSSH key"),
            ("secret".to_owned(), JwtAlgorithm::Es256, "no line `-----BEGIN PUBLIC KEY-----`"),
        ] {
            let (what, _) = public_key_problem(pem.as_bytes(), algorithm).expect(expected);
            assert!(what.contains(expected), "{what}");
        }
    }
}
