//! The file format, as types. One module a file; cases are data.

mod advantages;
mod bandit;
mod kl;
mod logits;
mod losses;
mod matrix;
mod optim;
mod sampling;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use advantages::{
    Aggregation, Ddof, Method, MultiCase, MultiParams, ScalarCase, ScalarParams, Scale, Singleton, TokenCase, TokenMethod, TokenParams,
};
pub(crate) use bandit::BanditCase;
pub(crate) use kl::{Estimator, EstimatorCase, EstimatorResult, ExactCase};
pub(crate) use logits::{LogitsCase, LogitsResult};
pub(crate) use losses::{Aggregate, Level, LossCase, LossResult, LossType, PolicyLoss, TrlParams, VerlParams};
pub(crate) use matrix::{Cube, Matrix};
pub(crate) use optim::{OptimCase, ScheduleCase, ScheduleKind};
pub(crate) use sampling::SamplingCase;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File<C> {
    pub format: u32,
    /// Read by people, as the next two.
    #[serde(rename = "about")]
    _about: String,
    #[serde(rename = "dtype")]
    _dtype: String,
    #[serde(rename = "versions")]
    _versions: BTreeMap<String, String>,
    pub tolerance: Tolerance,
    pub cases: Vec<C>,
    /// Of optim.json.
    #[serde(default)]
    pub schedules: Vec<ScheduleCase>,
}

/// How close to come: |got − want| ≤ tol · max(1, |want|).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tolerance {
    pub float64: f64,
    pub float32: f64,
}

/// What every case may say of its precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Float32 {
    /// Its inputs lose their meaning in 32 bits.
    #[serde(rename = "not representable")]
    NotRepresentable,
}

/// Declares a case: its own fields and those that every case may have.
macro_rules! case {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            #[serde(default)]
            pub name: String,
            #[serde(default)]
            pub float32: Option<crate::cases::Float32>,
            #[serde(default)]
            pub tolerance_float64: Option<f64>,
            #[serde(default, rename = "oracle")]
            _oracle: Vec<String>,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl crate::cases::Common for $name {
            fn name(&self) -> &str {
                &self.name
            }
            fn float32(&self) -> Option<crate::cases::Float32> {
                self.float32
            }
            fn tolerance_float64(&self) -> Option<f64> {
                self.tolerance_float64
            }
        }
    };
}
pub(crate) use case;

/// The fields that every case may have.
pub(crate) trait Common {
    fn name(&self) -> &str;
    fn float32(&self) -> Option<Float32>;
    fn tolerance_float64(&self) -> Option<f64>;
}

/// Refuses groups that do not make up the rows.
pub(crate) fn groups_fit(what: &str, rows: usize, groups: usize, group_size: usize) -> Result<(), String> {
    if group_size == 0 {
        return Err("group_size is 0, must be at least 1".to_owned());
    }
    fits(what, rows, groups.saturating_mul(group_size))
}

/// Refuses lists that do not fit together, before anything is computed with them.
pub(crate) fn fits(what: &str, given: usize, expected: usize) -> Result<(), String> {
    if given == expected { Ok(()) } else { Err(format!("{what} has {given} entries, expected {expected}")) }
}
