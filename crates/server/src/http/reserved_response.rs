use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::connection::HttpCaller;
use crate::listen::{Reservation, Resource, ResponseInProgress};

/// A response whose memory is reserved until it is written: the connection drops it after its last byte.
pub(super) struct ReservedResponse {
    body: Vec<u8>,
    _reserved: Reservation,
    _in_progress: ResponseInProgress,
}

impl ReservedResponse {
    /// Responds with a body whose size depends on the policy, so the longest so far is reserved for the next.
    pub(super) async fn of(
        caller: &HttpCaller,
        longest: &AtomicUsize,
        content_type: &'static str,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Response {
        let reserved = caller.share.reserve(Resource::ResponseBytes, longest.load(Relaxed)).await;
        let turn = caller.share.turn().await;
        let body = make();
        drop(turn);
        longest.fetch_max(body.capacity(), Relaxed);
        let body = ReservedResponse::bytes(body, reserved, caller.activity.begin_response());
        ([(header::CONTENT_TYPE, content_type)], body).into_response()
    }

    pub(super) fn bytes(mut body: Vec<u8>, mut reserved: Reservation, in_progress: ResponseInProgress) -> Bytes {
        // More was reserved than needed, because the length was unknown. The client may read slowly.
        body.shrink_to_fit();
        reserved.shrink_to(body.capacity());
        Bytes::from_owner(ReservedResponse { body, _reserved: reserved, _in_progress: in_progress })
    }
}

impl AsRef<[u8]> for ReservedResponse {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::listen::{Activity, AddressShare};

    #[tokio::test(start_paused = true)]
    async fn response_reserves_no_more_than_its_length() {
        let share = AddressShare::alone();
        let reserved = share.reserve(Resource::ResponseBytes, usize::MAX).await;
        let all = reserved.bytes();
        let mut body = Vec::with_capacity(1 << 20);
        body.extend_from_slice(b"short");
        let held = ReservedResponse::bytes(body, reserved, Activity::new().begin_response());
        let is_free =
            async |bytes| timeout(Duration::from_secs(1), share.reserve(Resource::ResponseBytes, bytes)).await.is_ok();
        assert!(is_free(all - 1024).await);
        assert!(!is_free(all).await);
        drop(held);
        assert!(is_free(all).await);
    }
}
