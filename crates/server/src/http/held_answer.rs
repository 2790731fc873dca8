use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::connection::Caller;
use crate::listen::{Answering, Reservation, Resource};

/// An answer that counts until it is written: the connection drops it when its last byte has gone.
pub(super) struct HeldAnswer {
    answer: Vec<u8>,
    _reserved: Reservation,
    _answering: Answering,
}

impl HeldAnswer {
    /// An answer that is long where the policy has many rules: the same in every answer, so that the longest so far
    /// is what the next takes.
    pub(super) async fn of(
        caller: &Caller,
        longest: &AtomicUsize,
        content_type: &'static str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Response {
        let reserved = caller.share.reserve(Resource::AnswerBytes, longest.load(Relaxed)).await;
        let turn = caller.share.turn().await;
        let answer = make();
        drop(turn);
        longest.fetch_max(answer.capacity(), Relaxed);
        let answer = HeldAnswer::bytes(answer, reserved, caller.activity.begin_answer());
        ([(header::CONTENT_TYPE, content_type)], answer).into_response()
    }

    pub(super) fn bytes(mut answer: Vec<u8>, mut reserved: Reservation, answering: Answering) -> Bytes {
        // More was reserved than was needed, because its length was not known. The client may take its time.
        answer.shrink_to_fit();
        reserved.shrink_to(answer.capacity());
        Bytes::from_owner(HeldAnswer { answer, _reserved: reserved, _answering: answering })
    }
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::listen::{Activity, Share};

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_no_more_than_its_length() {
        let share = Share::alone();
        let reserved = share.reserve(Resource::AnswerBytes, usize::MAX).await;
        let all = reserved.bytes();
        let mut answer = Vec::with_capacity(1 << 20);
        answer.extend_from_slice(b"short");
        let held = HeldAnswer::bytes(answer, reserved, Activity::new().begin_answer());
        let is_free =
            async |bytes| timeout(Duration::from_secs(1), share.reserve(Resource::AnswerBytes, bytes)).await.is_ok();
        assert!(is_free(all - 1024).await);
        assert!(!is_free(all).await);
        drop(held);
        assert!(is_free(all).await);
    }
}
