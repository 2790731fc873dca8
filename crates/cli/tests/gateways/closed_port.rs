//! A reserved address that refuses connections.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

pub(crate) struct ClosedPort {
    pub(crate) address: SocketAddr,
    /// Bound and not listening: connections are refused, and no other process gets the port.
    _socket: Socket,
}

impl ClosedPort {
    pub(crate) fn new() -> ClosedPort {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        ClosedPort { address, _socket: socket }
    }
}
