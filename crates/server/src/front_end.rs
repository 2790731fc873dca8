/// The way by which a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// HTTP with JSON.
    Http,
    /// What Redis clients speak.
    Resp,
}

impl FrontEnd {
    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FrontEnd::Http => "http",
            FrontEnd::Resp => "resp",
        }
    }
}
