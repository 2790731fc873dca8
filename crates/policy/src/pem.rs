//! Problems of PEM files, as messages that name the line.
//!
//! The libraries that read certificates and keys report them without a position.

use crate::check::words::quoted;

/// What is wrong with a file, as the rest of a sentence that begins with the file, and how to repair it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemProblem {
    /// For example "is not valid PEM: line 3 contains `!`, which is not base64".
    pub what: String,
    /// The hint.
    pub hint: &'static str,
}

/// What a file with certificates must contain.
pub const CERTIFICATE_HINT: &str = "write whole certificates to the file, each from `-----BEGIN CERTIFICATE-----` to \
                                    `-----END CERTIFICATE-----`";

/// What a file with a private key must contain.
pub const PRIVATE_KEY_HINT: &str = "write the whole private key to the file, from `-----BEGIN PRIVATE KEY-----` to \
                                    `-----END PRIVATE KEY-----`";

const CERTIFICATE_FROM_DER: &str = "convert it: openssl x509 -inform DER -in FILE -out FILE.pem";
const KEY_FROM_DER: &str = "convert it: openssl pkey -inform DER -in FILE -out FILE.pem";

/// Returns what is wrong with a file of certificates. `None` also for certificates that only a parser can refuse.
#[must_use]
pub fn certificate_problem(pem: &[u8]) -> Option<PemProblem> {
    let problem = |what: String| Some(PemProblem { what, hint: CERTIFICATE_HINT });
    if is_der(pem) {
        return Some(PemProblem { what: "is not PEM: it is DER".to_owned(), hint: CERTIFICATE_FROM_DER });
    }
    let mut certificates = 0;
    let mut lines = Lines::of(pem);
    while let Some((line, label)) = lines.begin() {
        let der = match lines.body(&label) {
            Ok(der) => der,
            Err(what) => return problem(what),
        };
        if label != "CERTIFICATE" {
            continue;
        }
        certificates += 1;
        if !is_certificate(&der) {
            return problem(format!("contains no certificate in the section that begins at line {line}"));
        }
    }
    if certificates == 0 { problem("has no certificate in PEM format".to_owned()) } else { None }
}

/// Returns what is wrong with a file of a private key. `None` also for a key that only a parser can refuse.
#[must_use]
pub fn private_key_problem(pem: &[u8]) -> Option<PemProblem> {
    let problem = |what: String| Some(PemProblem { what, hint: PRIVATE_KEY_HINT });
    if is_der(pem) {
        return Some(PemProblem { what: "is not PEM: it is DER".to_owned(), hint: KEY_FROM_DER });
    }
    let mut lines = Lines::of(pem);
    while let Some((_, label)) = lines.begin() {
        match lines.body(&label) {
            Ok(_) if label.ends_with("PRIVATE KEY") => return None,
            Ok(_) => {}
            Err(what) => return problem(what),
        }
    }
    problem("has no private key in PEM format".to_owned())
}

/// The lines of a PEM file with their numbers.
pub(crate) struct Lines<'p> {
    rest: &'p [u8],
    /// The number of the line that was read last.
    number: usize,
}

impl<'p> Lines<'p> {
    pub(crate) fn of(pem: &'p [u8]) -> Lines<'p> {
        Lines { rest: pem, number: 0 }
    }

    /// Skips to the next section. Returns the number of its first line and its label.
    pub(crate) fn begin(&mut self) -> Option<(usize, String)> {
        self.find_map(|(number, line)| {
            let label = line.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
            Some((number, label.to_owned()))
        })
    }

    /// Reads the section that has begun, up to its last line. Returns its content, or what is wrong.
    pub(crate) fn body(&mut self, label: &str) -> Result<Vec<u8>, String> {
        let missing = || format!("is not valid PEM: the line `-----END {label}-----` is missing");
        let mut body = String::new();
        for (number, line) in self {
            if line.starts_with("-----END ") {
                let der = decoded(&body).filter(|der| !der.is_empty());
                return der.ok_or_else(|| "is not valid PEM: a part of its base64 text is missing".to_owned());
            }
            if line.starts_with("-----BEGIN ") {
                return Err(format!("{} before line {number}", missing()));
            }
            if let Some(c) = line.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '/' | '=')) {
                let c = quoted(&c.to_string());
                return Err(format!("is not valid PEM: line {number} contains {c}, which is not base64"));
            }
            body.push_str(&line);
        }
        Err(missing())
    }
}

impl Iterator for Lines<'_> {
    type Item = (usize, String);

    fn next(&mut self) -> Option<(usize, String)> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n').map_or(self.rest.len(), |at| at + 1);
        let (line, rest) = self.rest.split_at(end);
        (self.rest, self.number) = (rest, self.number + 1);
        Some((self.number, String::from_utf8_lossy(line).trim().to_owned()))
    }
}

/// Whether a file looks like DER: a sequence of the length of the file.
fn is_der(bytes: &[u8]) -> bool {
    sequence(bytes).is_some_and(|(_, rest)| rest.is_empty())
}

/// Whether DER has the form of a certificate: a sequence of two sequences and a bit string.
fn is_certificate(der: &[u8]) -> bool {
    const BIT_STRING: u8 = 3;
    let inner = sequence(der).filter(|(_, rest)| rest.is_empty()).map(|(inner, _)| inner);
    let algorithm = inner.and_then(sequence).map(|(_, rest)| rest);
    let signature = algorithm.and_then(sequence).map(|(_, rest)| rest);
    signature.is_some_and(|signature| signature.first() == Some(&BIT_STRING))
}

/// Splits DER after the sequence with which it begins. Returns its content and the rest.
fn sequence(der: &[u8]) -> Option<(&[u8], &[u8])> {
    const SEQUENCE: u8 = 0x30;
    let rest = der.strip_prefix(&[SEQUENCE])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// Decodes standard base64.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in digits.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for digit in chunk {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of a certificate, with empty parts.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMAcwADAA\nAwEA\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";

    #[test]
    fn whole_files_have_no_problem() {
        assert_eq!(certificate_problem(CERTIFICATE.as_bytes()), None);
        let chain = format!("Bag Attributes\r\n{}{KEY}\n{CERTIFICATE}", CERTIFICATE.replace('\n', "\r\n"));
        assert_eq!(certificate_problem(chain.as_bytes()), None);
        assert_eq!(private_key_problem(format!("{CERTIFICATE}{KEY}").as_bytes()), None);
    }

    #[test]
    fn damaged_certificates_are_described_with_their_line() {
        for (pem, expected) in [
            (CERTIFICATE.replace("MAcw", "M!cw"), "is not valid PEM: line 2 contains `!`, which is not base64"),
            (
                CERTIFICATE.replace("-----END CERTIFICATE-----\n", ""),
                "is not valid PEM: the line `-----END CERTIFICATE-----` is missing",
            ),
            (
                format!("{}{CERTIFICATE}", CERTIFICATE.replace("-----END CERTIFICATE-----\n", "")),
                "is not valid PEM: the line `-----END CERTIFICATE-----` is missing before line 4",
            ),
            (CERTIFICATE.replace("AwEA", "AwE"), "is not valid PEM: a part of its base64 text is missing"),
            (
                format!("{CERTIFICATE}{}", CERTIFICATE.replace("MAcw", "MBcw")),
                "contains no certificate in the section that begins at line 5",
            ),
            (KEY.to_owned(), "has no certificate in PEM format"),
            (String::new(), "has no certificate in PEM format"),
            ("0\u{2}0\0".to_owned(), "is not PEM: it is DER"),
        ] {
            assert_eq!(certificate_problem(pem.as_bytes()).expect(expected).what, expected);
        }
    }

    #[test]
    fn damaged_keys_are_described() {
        for (pem, expected) in [
            (KEY.replace("MAA=", "MAA=\nnext line"), "is not valid PEM: line 3 contains ` `, which is not base64"),
            (KEY.replace("-----END PRIVATE KEY-----\n", ""), "the line `-----END PRIVATE KEY-----` is missing"),
            (CERTIFICATE.to_owned(), "has no private key in PEM format"),
        ] {
            let what = private_key_problem(pem.as_bytes()).expect(expected).what;
            assert!(what.ends_with(expected), "{what}");
        }
    }
}
