use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Bytes;

use super::connection::ConnectionShare;
use crate::listen::{Answering, Reservation};

/// An answer that counts until it is written: the connection drops it when its last byte has gone.
pub(super) struct HeldAnswer {
    answer: Vec<u8>,
    _reserved: Reservation,
    _answering: Answering,
}

impl HeldAnswer {
    /// An answer that is long where the policy has many rules: the same in every answer, so that the longest so far
    /// is what the next takes.
    pub(super) async fn made_by(
        connection: &ConnectionShare,
        longest: &AtomicUsize,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        let reserved = connection.share.reserve_answer(longest.load(Relaxed)).await;
        let turn = connection.share.turn().await;
        let answer = make();
        drop(turn);
        longest.fetch_max(answer.capacity(), Relaxed);
        HeldAnswer::bytes(answer, reserved, connection.activity.begin_answer())
    }

    pub(super) fn bytes(answer: Vec<u8>, mut reserved: Reservation, answering: Answering) -> Bytes {
        // More was reserved than was needed, because nobody knew how long it would be.
        reserved.shrink_to(answer.capacity());
        Bytes::from_owner(HeldAnswer { answer, _reserved: reserved, _answering: answering })
    }
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}
