use tollgate_server::observe::Level;

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Everything under way was answered.
    Completely,
    /// Something took too long and was not.
    CutOff,
    /// An operator did not want to wait for what was under way.
    AtOnce,
}

impl Stopped {
    /// The last word.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Stopped::Completely => "stopped",
            Stopped::CutOff => "stopped: cut off what took too long",
            Stopped::AtOnce => "stopped at once: told so twice",
        }
    }

    /// Whoever was not answered is worth a warning.
    pub(super) const fn level(self) -> Level {
        match self {
            Stopped::Completely => Level::Info,
            Stopped::CutOff | Stopped::AtOnce => Level::Warning,
        }
    }
}
