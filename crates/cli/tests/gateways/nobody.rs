//! An address at which nobody answers, and which nobody else gets.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

pub(crate) struct Nobody {
    pub(crate) address: SocketAddr,
    /// It does not listen: who connects is refused.
    _socket: Socket,
}

impl Nobody {
    pub(crate) fn new() -> Nobody {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Nobody { address, _socket: socket }
    }
}
