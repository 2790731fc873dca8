//! The region of an instance, from a flag or the environment.

use clap::Args;
use tollgate::policy::Loaded;

use crate::exit::Failure;

/// The region of the instance, in place of that of the policy.
#[derive(Debug, Args)]
pub(crate) struct RegionArguments {
    /// Region of this instance, in place of `self` under `regions` in the policy
    ///
    /// So all regions can use one file. A policy without `regions` ignores it.
    #[arg(long = "region", value_name = "NAME", env = "TOLLGATE_REGION", hide_env_values = true)]
    pub(crate) name: Option<String>,
}

/// Sets the region of an instance, if there is one.
pub(crate) fn set_region(loaded: Loaded, region: Option<&str>) -> Result<Loaded, Failure> {
    let Some(region) = region else { return Ok(loaded) };
    let in_region = loaded.policy.in_region(region);
    let policy = in_region.map_err(|error| Failure::wrong_usage(error.to_string()).with_hint(error.hint))?;
    Ok(Loaded { policy, ..loaded })
}

/// Sets the region of an instance that enforces the policy, and fails if its rules need one that is not set.
pub(crate) fn require_region(loaded: Loaded, region: Option<&str>) -> Result<Loaded, Failure> {
    let loaded = set_region(loaded, region)?;
    if !loaded.policy.lacks_region() {
        return Ok(loaded);
    }
    let names: Vec<&str> = loaded.policy.regions.iter().flat_map(|regions| regions.names()).collect();
    let hint = format!(
        "name it with --region or TOLLGATE_REGION, or with `self` under `regions`; known regions: {}",
        names.join(", ")
    );
    Err(Failure::wrong_usage("the policy has regional rules, and the region of this instance is not set")
        .with_hint(hint))
}
