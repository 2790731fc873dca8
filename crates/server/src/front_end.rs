/// The interface through which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// HTTP with JSON.
    Http,
    /// Forward-auth, for gateways.
    ForwardAuth,
    /// RESP, for Redis clients.
    Resp,
    /// gRPC, for gateways such as Envoy.
    Grpc,
}

impl FrontEnd {
    /// All front ends, each at its [`position`](FrontEnd::position).
    pub(crate) const ALL: [FrontEnd; 4] = [FrontEnd::Http, FrontEnd::ForwardAuth, FrontEnd::Resp, FrontEnd::Grpc];

    /// Returns the name used in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FrontEnd::Http => "http",
            FrontEnd::ForwardAuth => "forward-auth",
            FrontEnd::Resp => "resp",
            FrontEnd::Grpc => "grpc",
        }
    }

    /// Returns the index, in declaration order.
    pub(crate) const fn position(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::FrontEnd;

    #[test]
    fn front_ends_are_listed_at_their_positions() {
        for (at, front_end) in FrontEnd::ALL.into_iter().enumerate() {
            assert_eq!(front_end.position(), at, "{}", front_end.name());
        }
    }
}
