use bytes::Bytes;
use http::HeaderMap;

/// A response that has been read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The value of a field that may be there once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.get_all(name).iter();
        let first = lines.next()?;
        assert!(lines.next().is_none(), "{name} is there twice: {:?}", self.headers);
        Some(first.to_str().unwrap())
    }

    /// The number in a field.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        Some(self.field(name)?.parse().unwrap())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The whole response, for searching.
    pub(crate) fn everything(&self) -> String {
        format!("{:?} {}", self.headers, String::from_utf8_lossy(&self.body))
    }
}
