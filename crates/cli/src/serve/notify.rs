//! Notifies systemd of the state of the service, with a datagram to the socket in `NOTIFY_SOCKET`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The environment variable with the socket of systemd.
const SOCKET: &str = "NOTIFY_SOCKET";

/// A state that systemd is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceState {
    Ready,
    Reloading,
    Stopping,
}

/// Notifies systemd, if it started the process and expects it. Errors are ignored: the service continues.
pub(super) fn notify(state: ServiceState) {
    if let Some(socket) = env::var_os(SOCKET) {
        let _ = send(&socket, state);
    }
}

fn send(socket: &OsStr, state: ServiceState) -> io::Result<()> {
    let message = match state {
        ServiceState::Ready => "READY=1",
        ServiceState::Reloading => "RELOADING=1",
        ServiceState::Stopping => "STOPPING=1",
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address(socket)?)?;
    Ok(())
}

/// The address of a socket: a path, or an abstract name after `@`.
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
    fn abstract_socket_name_is_notified() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("tollgate-notify-{}", std::process::id());
        let receiver = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(OsStr::new(&format!("@{name}")), ServiceState::Reloading).unwrap();
        let mut message = [0; 64];
        let length = receiver.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"RELOADING=1");
    }
}
