//! Tells systemd how far the service is: a datagram to the socket that it names.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where systemd listens, if it started us and wants to know.
const SOCKET: &str = "NOTIFY_SOCKET";

/// How far the service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Ready,
    Reloading,
    Stopping,
}

/// Tells it to whoever started us. A service goes on when nobody listens.
pub(super) fn notify(progress: Progress) {
    if let Some(socket) = env::var_os(SOCKET) {
        let _ = tell(&socket, progress);
    }
}

fn tell(socket: &OsStr, progress: Progress) -> io::Result<()> {
    let message = match progress {
        Progress::Ready => "READY=1",
        Progress::Reloading => "RELOADING=1",
        Progress::Stopping => "STOPPING=1",
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address(socket)?)?;
    Ok(())
}

/// A path, or behind an `@` a name that is in no directory.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(OsStr::from_bytes(socket.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_name_in_no_directory_is_understood() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("tollgate-notify-{}", std::process::id());
        let listening = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        tell(OsStr::new(&format!("@{name}")), Progress::Reloading).unwrap();
        let mut message = [0; 64];
        let length = listening.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"RELOADING=1");
    }
}
