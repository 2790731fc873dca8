/// The way by which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// HTTP with JSON.
    Http,
    /// A gateway that asks before it forwards a request.
    ForwardAuth,
    /// What Redis clients speak.
    Resp,
    /// gRPC, as gateways ask.
    Grpc,
}

impl FrontEnd {
    /// All of them, each at its [`position`](FrontEnd::position).
    pub(crate) const ALL: [FrontEnd; 4] = [FrontEnd::Http, FrontEnd::ForwardAuth, FrontEnd::Resp, FrontEnd::Grpc];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FrontEnd::Http => "http",
            FrontEnd::ForwardAuth => "forward-auth",
            FrontEnd::Resp => "resp",
            FrontEnd::Grpc => "grpc",
        }
    }

    /// In the order in which they are declared.
    pub(crate) const fn position(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::FrontEnd;

    #[test]
    fn each_stands_at_its_position() {
        for (at, front_end) in FrontEnd::ALL.into_iter().enumerate() {
            assert_eq!(front_end.position(), at, "{}", front_end.name());
        }
    }
}
