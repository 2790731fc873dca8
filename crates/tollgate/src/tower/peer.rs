use std::net::IpAddr;

use http::Extensions;

/// The address at the other end of a connection, for servers that put it into
/// a request's extensions themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub IpAddr);

/// Looks where the servers that we know leave it.
pub(super) fn known_peer_address(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(PeerAddress(address)) = extensions.get() {
        return Some(*address);
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) =
        extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>()
    {
        return Some(address.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr().map(|address| address.ip());
    }
    None
}
