/// Appends the fields of a message in protobuf encoding. Like every `proto3` encoder it omits default values.
///
/// A response is written for every call, and this takes a third of the time of building, measuring and encoding prost
/// messages.
pub(in crate::grpc) struct MessageWriter<'a>(&'a mut Vec<u8>);

/// How a field is written.
const VARINT: u8 = 0;
const LENGTH_DELIMITED: u8 = 2;

impl<'a> MessageWriter<'a> {
    pub(in crate::grpc) fn new(out: &'a mut Vec<u8>) -> MessageWriter<'a> {
        MessageWriter(out)
    }

    /// Writes a number, or a value of an enumeration, which is never negative.
    pub(in crate::grpc) fn number(&mut self, field: u8, value: impl Into<u64>) {
        let value = value.into();
        if value > 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
    }

    pub(in crate::grpc) fn text(&mut self, field: u8, text: &str) {
        if !text.is_empty() {
            self.key(field, LENGTH_DELIMITED);
            self.varint(text.len() as u64);
            self.0.extend_from_slice(text.as_bytes());
        }
    }

    /// Writes a nested message, even if it is empty.
    pub(in crate::grpc) fn message(&mut self, field: u8, write: impl FnOnce(&mut MessageWriter<'_>)) {
        self.key(field, LENGTH_DELIMITED);
        // Nearly every length takes one byte. It is known after the content is written.
        let at = self.0.len();
        self.0.push(0);
        write(&mut MessageWriter(self.0));
        let length = self.0.len() - at - 1;
        if length < 0x80 {
            self.0[at] = length as u8;
        } else {
            let mut varint = Vec::new();
            MessageWriter(&mut varint).varint(length as u64);
            self.0.splice(at..=at, varint);
        }
    }

    /// Fields below 16 have a key of one byte, and there are no others.
    fn key(&mut self, field: u8, kind: u8) {
        debug_assert!(field < 16, "{field}");
        self.0.push(field << 3 | kind);
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::MessageWriter;
    use crate::grpc::rate_limit::messages::{DescriptorStatus, Duration, HeaderValue, RateLimit, RateLimitResponse};

    fn write(response: &RateLimitResponse) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = MessageWriter::new(&mut out);
        writer.number(1, response.overall_code as u64);
        for status in &response.statuses {
            writer.message(2, |writer| {
                writer.number(1, status.code as u64);
                if let Some(limit) = &status.current_limit {
                    writer.message(2, |writer| {
                        writer.number(1, limit.requests_per_unit);
                        writer.number(2, limit.unit as u64);
                        writer.text(3, &limit.name);
                    });
                }
                writer.number(3, status.limit_remaining);
                if let Some(reset) = status.duration_until_reset {
                    writer.message(4, |writer| writer.number(1, reset.seconds as u64));
                }
            });
        }
        for header in &response.response_headers_to_add {
            writer.message(3, |writer| {
                writer.text(1, &header.key);
                writer.text(2, &header.value);
            });
        }
        out
    }

    #[test]
    fn bytes_are_those_of_prost() {
        for (number, text) in
            [(0, ""), (1, "x"), (127, "per-ip"), (128, &"y".repeat(200)), (u32::MAX, &"z".repeat(20_000))]
        {
            let text = text.to_owned();
            let limit = RateLimit { requests_per_unit: number, unit: 2, name: text.clone() };
            let status = DescriptorStatus {
                code: 1,
                current_limit: Some(limit),
                limit_remaining: number,
                duration_until_reset: Some(Duration { seconds: number.into() }),
            };
            let response = RateLimitResponse {
                overall_code: 2,
                statuses: vec![DescriptorStatus::default(), status],
                response_headers_to_add: vec![HeaderValue { key: text.clone(), value: text }],
            };
            assert_eq!(write(&response), response.encode_to_vec());
        }
    }
}
