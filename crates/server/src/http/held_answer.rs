use axum::body::Bytes;

use crate::listen::{Answering, Reservation};

/// An answer that counts until it is written: the connection drops it when its last byte has gone.
pub(super) struct HeldAnswer {
    json: Vec<u8>,
    _reserved: Reservation,
    _answering: Answering,
}

impl HeldAnswer {
    pub(super) fn bytes(json: Vec<u8>, mut reserved: Reservation, answering: Answering) -> Bytes {
        // More was reserved than was needed, because nobody knew how long it would be.
        reserved.shrink_to(json.capacity());
        Bytes::from_owner(HeldAnswer { json, _reserved: reserved, _answering: answering })
    }
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.json
    }
}
