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
    /// An identity comes from signed tokens, and the policy has no key to verify them with.
    #[error(
        "`{identity}` is a claim of a signed token, and there is nothing to verify it with: \
         give a key under `jwt`, or say `trusted: true` if somebody in front verifies tokens"
    )]
    JwtKeyMissing {
        /// The identity.
        identity: String,
    },
    /// Tokens are to be read, and this program was built without that.
    #[error(
        "the policy reads tokens (`jwt`), and this program was built without them: build it with the feature `jwt`"
    )]
    JwtNotBuiltIn,
}
