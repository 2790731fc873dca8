use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// In how many steps a silence is waited for: it is noticed when it is at most a quarter too long.
const STEPS: u32 = 4;

/// How long nothing came or went on one connection. All clones are the same connection.
///
/// A count is all that is kept where bytes come: not even the time is asked
/// for, which would cost more than many a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    heard: Arc<AtomicU64>,
}

/// A stream whose silence is waited for.
#[derive(Debug)]
pub(crate) struct Heard<S> {
    stream: S,
    silence: Silence,
}

impl Silence {
    /// Waits until nothing came or went for so long.
    pub(crate) async fn lasts(&self, so_long: Duration) {
        let (mut heard, mut quiet_steps) = (self.heard.load(Relaxed), 0);
        while quiet_steps < STEPS {
            tokio::time::sleep(so_long / STEPS).await;
            let now = self.heard.load(Relaxed);
            quiet_steps = if now == heard { quiet_steps + 1 } else { 0 };
            heard = now;
        }
    }

    /// Only the connection's own task writes, so it takes no more than to add.
    fn is_broken(&self) {
        self.heard.store(self.heard.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

impl<S> Heard<S> {
    pub(crate) fn new(stream: S, silence: Silence) -> Heard<S> {
        Heard { stream, silence }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if polled.is_ready() {
            self.silence.is_broken();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        if polled.is_ready() {
            self.silence.is_broken();
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, advance, sleep, timeout};

    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn who_never_says_anything_is_silent() {
        let begun = Instant::now();
        Silence::default().lasts(8 * S).await;
        assert!((8 * S..=10 * S).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_something_in_time_is_not() {
        let silence = Silence::default();
        let (mut client, server) = duplex(64);
        let mut server = Heard::new(server, silence.clone());
        let talk = async {
            for _ in 0..20 {
                sleep(7 * S).await;
                client.write_all(b"x").await.unwrap();
                server.read_u8().await.unwrap();
            }
        };
        let ended = tokio::select! {
            () = silence.lasts(8 * S) => false,
            () = talk => true,
        };
        assert!(ended);
        let begun = Instant::now();
        silence.lasts(8 * S).await;
        assert!((8 * S..=10 * S).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_breaks_it_and_what_is_not_taken_does_not() {
        let silence = Silence::default();
        let (_client, server) = duplex(4);
        let mut server = Heard::new(server, silence.clone());
        server.write_all(b"full").await.unwrap();
        assert_eq!(silence.heard.load(Relaxed), 1);
        advance(S).await;
        assert!(timeout(S, server.write_all(b"x")).await.is_err());
        assert_eq!(silence.heard.load(Relaxed), 1);
    }
}
