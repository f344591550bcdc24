//! The reference: what the KL term holds the policy to, and how it follows.

use std::collections::HashMap;

use burn::Tensor;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};

use crate::config::ReferenceConfig;

/// The renewed reference: share · policy + (1 − share) · reference, parameter by parameter; at a share of 1 the policy as it is.
///
/// Both without autodiff (`valid()`). Frozen parameters are the same in both, and stay.
pub(crate) fn renewed<P: Module>(reference: P, policy: &P, config: &ReferenceConfig) -> P {
    match config.share {
        None | Some(1.0) => policy.clone(),
        Some(share) => {
            let mut values = Values { path: Vec::new(), values: HashMap::new() };
            policy.visit(&mut values);
            reference.map(&mut Blend { path: Vec::new(), values: values.values, share })
        }
    }
}

/// A parameter, whatever its rank.
type Erased = Box<dyn std::any::Any>;

struct Values {
    path: Vec<String>,
    values: HashMap<String, Erased>,
}

impl ModuleVisitor for Values {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }
    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.values.insert(self.path.join("."), Box::new(param.val()));
    }
}

struct Blend {
    path: Vec<String>,
    values: HashMap<String, Erased>,
    share: f64,
}

impl ModuleMapper for Blend {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }
    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let policy = self.values.remove(&self.path.join(".")).and_then(|value| value.downcast::<Tensor<D>>().ok());
        let share = self.share;
        match policy {
            Some(policy) => param.map(|reference| reference * (1.0 - share) + *policy * share),
            None => param,
        }
    }
}
