//! The response fields as values of header fields.

use std::cell::RefCell;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::response::{Field, USUAL_BYTES};
use super::writer::{WrittenField, WrittenFields};
use crate::verdict::Verdict;

thread_local! {
    /// Responses of a thread share a buffer as long as it has room, so that most of them allocate nothing.
    static FIELD_BYTES: RefCell<BytesMut> = RefCell::new(BytesMut::with_capacity(BUFFER_BYTES));
}

/// Enough for some ten responses. A response that is kept for long keeps the whole buffer.
const BUFFER_BYTES: usize = 4 << 10;

/// The fields that a response is to have. Their values share one piece of memory.
pub(crate) struct HeaderFields {
    text: Bytes,
    written: WrittenFields,
}

/// What an allowed request is told, unless the policy chooses other fields.
const USUAL: [Field; 5] = [
    Field::RateLimitPolicy,
    Field::RateLimit,
    Field::XRateLimitLimit,
    Field::XRateLimitRemaining,
    Field::XRateLimitReset,
];

/// The names of [`USUAL`] behind the two that most responses have, all without values. Cloning this map is cheaper than
/// hashing the names of the fields again for every response.
static TEMPLATE: LazyLock<HeaderMap> = LazyLock::new(|| {
    let names = [header::CONTENT_TYPE, header::CONTENT_LENGTH].into_iter().chain(USUAL.map(Field::header_name));
    names.map(|name| (name, HeaderValue::from_static(""))).collect()
});

impl Verdict {
    /// The response fields as values of header fields.
    pub(crate) fn header_fields(&self) -> HeaderFields {
        FIELD_BYTES.with_borrow_mut(|buffer| {
            buffer.reserve(USUAL_BYTES);
            let written = self.write_fields(buffer);
            HeaderFields { text: buffer.split().freeze(), written }
        })
    }
}

impl HeaderFields {
    /// Each field with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Field, HeaderValue)> {
        self.written.iter().map(|written| (written.field, self.value(*written)))
    }

    #[allow(unsafe_code, reason = "checking every byte of every response would take as long as writing it")]
    #[inline]
    fn value(&self, written: WrittenField) -> HeaderValue {
        let value = self.text.slice(written.range());
        // SAFETY: the buffer has nothing but what a `FieldWriter` wrote: `FieldText`, which is visible ASCII and
        // spaces by construction, digits, and the separators in its code. All of these may stand in a header value.
        unsafe { HeaderValue::from_maybe_shared_unchecked(value) }
    }

    /// Puts the fields into the header of a response, in the place of fields of the same names.
    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        let is_usual = self.written.iter().map(|written| written.field).eq(USUAL);
        if is_usual && self.put_usual_into(headers) {
            return;
        }
        headers.reserve(self.written.len());
        for (field, value) in self.iter() {
            headers.insert(field.header_name(), value);
        }
    }

    /// The same for the usual fields and a response that has at most the names of the template. False if it has others.
    fn put_usual_into(&self, headers: &mut HeaderMap) -> bool {
        let is_known = |name: &HeaderName| *name == header::CONTENT_TYPE || *name == header::CONTENT_LENGTH;
        if headers.len() != headers.keys_len() || !headers.keys().all(is_known) {
            return false;
        }
        let mut all = TEMPLATE.clone();
        let mut places = all.values_mut();
        let (Some(content_type), Some(content_length)) = (places.next(), places.next()) else { return false };
        let (mut has_type, mut has_length) = (false, false);
        for (name, value) in headers.iter_mut() {
            if *name == header::CONTENT_TYPE {
                std::mem::swap(content_type, value);
                has_type = true;
            } else {
                std::mem::swap(content_length, value);
                has_length = true;
            }
        }
        for (place, written) in places.zip(&self.written) {
            *place = self.value(*written);
        }
        if !has_type {
            all.remove(header::CONTENT_TYPE);
        }
        if !has_length {
            all.remove(header::CONTENT_LENGTH);
        }
        *headers = all;
        true
    }
}

impl Field {
    /// Its name, as header maps take it.
    pub(crate) fn header_name(self) -> HeaderName {
        const RATELIMIT_POLICY: HeaderName = HeaderName::from_static(Field::RateLimitPolicy.name());
        const RATELIMIT: HeaderName = HeaderName::from_static(Field::RateLimit.name());
        const LIMIT: HeaderName = HeaderName::from_static(Field::XRateLimitLimit.name());
        const REMAINING: HeaderName = HeaderName::from_static(Field::XRateLimitRemaining.name());
        const RESET: HeaderName = HeaderName::from_static(Field::XRateLimitReset.name());
        const WARNING: HeaderName = HeaderName::from_static(Field::XRateLimitWarning.name());
        match self {
            Field::RateLimitPolicy => RATELIMIT_POLICY,
            Field::RateLimit => RATELIMIT,
            Field::XRateLimitLimit => LIMIT,
            Field::XRateLimitRemaining => REMAINING,
            Field::XRateLimitReset => RESET,
            Field::XRateLimitWarning => WARNING,
            Field::RetryAfter => header::RETRY_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::writer::{FieldText, FieldWriter};

    fn written(fields: &[Field]) -> HeaderFields {
        let mut buffer = BytesMut::new();
        let mut writer = FieldWriter::new(&mut buffer);
        for field in fields {
            writer.push(&FieldText::new(format!("value of {}", field.name())));
            writer.end(*field);
        }
        let written = writer.finish();
        HeaderFields { text: buffer.freeze(), written }
    }

    fn sorted(headers: &HeaderMap) -> Vec<(String, String)> {
        let lines = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned()));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }

    #[test]
    fn fields_replace_those_of_their_names_and_leave_all_others() {
        let few = [Field::RateLimit, Field::RetryAfter];
        let with_warning = [USUAL.as_slice(), &[Field::XRateLimitWarning]].concat();
        let known = [
            ("content-type", "text/plain"),
            ("content-length", "12"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("content-type", "text/html"),
            ("x-ratelimit-limit", "of the handler"),
        ];
        for fields in [&USUAL[..], &few, &with_warning, &[]] {
            // Every subset of what a response may have.
            for chosen in 0..1 << known.len() {
                let chosen = known.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1).map(|(_, line)| *line);
                let mut headers = HeaderMap::new();
                for (name, value) in chosen {
                    headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
                }
                let mut expected = headers.clone();
                for field in fields {
                    let value = HeaderValue::from_str(&format!("value of {}", field.name()));
                    expected.insert(field.name(), value.unwrap_or_else(|error| panic!("{error}")));
                }
                written(fields).put_into(&mut headers);
                assert_eq!(sorted(&headers), sorted(&expected));
            }
        }
    }
}
