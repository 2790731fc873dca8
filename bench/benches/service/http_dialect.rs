use crate::dialect::Dialect;

/// HTTP/1.1, with the same request repeatedly.
pub(crate) struct Http {
    request: Vec<u8>,
    /// The received part of incomplete responses.
    received: Vec<u8>,
}

impl Http {
    pub(crate) fn post(path: &str, body: &str) -> Http {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: tollgate\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Http { request: request.into_bytes(), received: Vec::new() }
    }

    /// A check for the address of this number.
    pub(crate) fn check(address: usize) -> Http {
        Http::post("/v1/check", &format!(r#"{{"ip":"203.0.113.{address}"}}"#))
    }
}

impl Dialect for Http {
    fn write_request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn count_responses(&mut self, bytes: &[u8], _out: &mut Vec<u8>) -> usize {
        self.received.extend_from_slice(bytes);
        let mut answers = 0;
        let mut ended = 0;
        while let Some(length) = response_length(&self.received[ended..]) {
            ended += length;
            answers += 1;
        }
        self.received.drain(..ended);
        answers
    }
}

/// Returns the length of the first response, if it is complete.
fn response_length(bytes: &[u8]) -> Option<usize> {
    const LENGTH: &[u8] = b"content-length: ";
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(bytes));
    let field = bytes[..head].windows(LENGTH.len()).position(|window| window.eq_ignore_ascii_case(LENGTH)).unwrap();
    let digits = bytes[field + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    (bytes.len() >= head + body).then_some(head + body)
}
