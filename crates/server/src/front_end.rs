/// The way by which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// HTTP with JSON.
    Http,
    /// gRPC, as gateways ask.
    Grpc,
}

impl FrontEnd {
    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FrontEnd::Http => "http",
            FrontEnd::Grpc => "grpc",
        }
    }
}
