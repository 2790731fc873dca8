use axum::http::{HeaderMap, HeaderValue};
use tollgate::Headers;

/// Header fields as HTTP has them.
pub(in crate::http) struct HeaderLines<'a>(pub(in crate::http) &'a HeaderMap);

impl Headers for HeaderLines<'_> {
    fn line(&self, name: &str, at: usize) -> Option<&[u8]> {
        self.0.get_all(name).iter().nth(at).map(HeaderValue::as_bytes)
    }
}
