use crate::dialect::Dialect;

/// HTTP/1.1, the same request again and again.
pub(crate) struct Http {
    request: Vec<u8>,
    /// What has come of answers that have not ended.
    heard: Vec<u8>,
}

impl Http {
    pub(crate) fn post(path: &str, body: &str) -> Http {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: tollgate\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Http { request: request.into_bytes(), heard: Vec::new() }
    }

    /// A check of a request of an address that has this number.
    pub(crate) fn check(address: usize) -> Http {
        Http::post("/v1/check", &format!(r#"{{"ip":"203.0.113.{address}"}}"#))
    }
}

impl Dialect for Http {
    fn ask(&mut self, said: &mut Vec<u8>) {
        said.extend_from_slice(&self.request);
    }

    fn hear(&mut self, bytes: &[u8], _said: &mut Vec<u8>) -> usize {
        self.heard.extend_from_slice(bytes);
        let mut answers = 0;
        let mut ended = 0;
        while let Some(length) = length_of_answer(&self.heard[ended..]) {
            ended += length;
            answers += 1;
        }
        self.heard.drain(..ended);
        answers
    }
}

/// The bytes of the answer at the beginning, if all of it has come.
fn length_of_answer(bytes: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"content-length: ";
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(bytes));
    let field = bytes[..head].windows(LENGTH.len()).position(|window| window.eq_ignore_ascii_case(LENGTH)).unwrap();
    let digits = bytes[field + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    (bytes.len() >= head + body).then_some(head + body)
}
