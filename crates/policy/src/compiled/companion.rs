use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

use crate::compiled::CompiledPolicy;

/// What the owner of a plan keeps beside it.
#[derive(Default)]
pub(super) struct Companion(OnceLock<Box<dyn Any + Send + Sync>>);

impl CompiledPolicy {
    /// What the owner of this plan keeps beside it, and makes when it is first
    /// asked for. It ends with the plan, and who has the plan finds it without
    /// looking anything up. There is one, so it is `None` for another type than the first.
    #[inline]
    pub fn companion<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.companion.0.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Companion").field(&self.0.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{CompiledPolicy, PolicyBuilder};

    #[test]
    fn there_is_one_and_it_is_made_once() {
        let plan = CompiledPolicy::new(&PolicyBuilder::default().build().unwrap()).unwrap();
        assert_eq!(plan.companion(|| 1_u32), Some(&1));
        assert_eq!(plan.companion(|| 2_u32), Some(&1));
        assert_eq!(plan.companion(|| "another"), None);
    }
}
