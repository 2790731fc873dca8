//! Why a policy that is right in itself cannot be used here.

/// Why a checked policy cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The key that verifies tokens is not one of its algorithm.
    #[error("the key under `jwt` cannot verify tokens: {reason}")]
    JwtKey {
        /// What is wrong with it.
        reason: String,
    },
}
