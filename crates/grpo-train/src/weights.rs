//! A module's parameters on the host, and back: by path, with their ids, which the optimiser's state hangs on.

use std::collections::BTreeMap;

use burn::Tensor;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Bool, Bytes, DType, Int, TensorData};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// One parameter.
#[derive(Debug, Clone)]
struct Saved {
    id: u64,
    data: TensorData,
}

/// Parameters by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    params: BTreeMap<String, Saved>,
}

impl Weights {
    /// Those that are trained, or those at the paths that `like` has.
    ///
    /// # Errors
    /// A device that failed.
    pub(crate) fn of<M: Module>(module: &M, like: Option<&Self>) -> Result<Self> {
        let mut read = Read { path: Vec::new(), params: BTreeMap::new(), wanted: like.map_or(Wanted::Trained, Wanted::Same), failed: None };
        module.visit(&mut read);
        read.failed.map_or(Ok(Self { params: read.params }), Err)
    }

    /// SHA-256 of everything that is not trained. It does not change while a run goes on, and must be the same when it goes on.
    ///
    /// # Errors
    /// A device that failed.
    pub(crate) fn frozen_hash<M: Module>(module: &M) -> Result<String> {
        let mut read = Read { path: Vec::new(), params: BTreeMap::new(), wanted: Wanted::Frozen(Sha256::new()), failed: None };
        module.visit(&mut read);
        match (read.failed, read.wanted) {
            (Some(error), _) => Err(error),
            (None, Wanted::Frozen(hash)) => Ok(format!("{:x}", hash.finalize())),
            (None, _) => Ok(String::new()),
        }
    }

    /// The path of the first parameter with a value that is NaN or infinite.
    pub(crate) fn not_finite(&self) -> Option<&str> {
        let finite = |data: &TensorData| match data.dtype() {
            DType::F32 | DType::Flex32 => data.as_slice::<f32>().map_or(true, |v| v.iter().all(|x| x.is_finite())),
            DType::F64 => data.as_slice::<f64>().map_or(true, |v| v.iter().all(|x| x.is_finite())),
            DType::F16 | DType::BF16 => data.iter::<f32>().all(|x| x.is_finite()),
            _ => true,
        };
        self.params.iter().find(|(_, saved)| !finite(&saved.data)).map(|(path, _)| path.as_str())
    }

    /// As a burnpack file. The same weights give the same bytes.
    ///
    /// # Errors
    /// An element type that the format does not have.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>> {
        let tensors = self.params.into_iter().map(|(path, Saved { id, data })| {
            let (bytes, shape, dtype) = data.into_parts();
            burn_pack::Tensor::new(path, dtype, shape, Some(id), bytes)
        });
        Ok(burn_pack::Writer::new(tensors.collect()).into_bytes().map_err(broken)?.to_vec())
    }

    /// From a burnpack file.
    ///
    /// # Errors
    /// A broken file.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let reader = burn_pack::Reader::from_bytes(Bytes::from_bytes_vec(bytes)).map_err(broken)?;
        let mut params = BTreeMap::new();
        for tensor in reader.into_tensors().map_err(broken)? {
            let (path, dtype, shape, id, bytes) = tensor.into_parts().map_err(broken)?;
            let id = id.ok_or_else(|| broken(format!("parameter `{path}` has no id")))?;
            params.insert(path, Saved { id, data: TensorData::from_bytes(bytes, shape, dtype) });
        }
        Ok(Self { params })
    }

    /// The module with these parameters and their ids, each on the device it was on. Parameters that are not here stay.
    ///
    /// # Errors
    /// A parameter that the module does not have or has in another shape or type; a trained one that is missing here.
    pub(crate) fn load<M: Module>(mut self, module: M) -> Result<M> {
        let mut write = Write { path: Vec::new(), params: &mut self.params, problem: None };
        let module = module.map(&mut write);
        if let Some(problem) = write.problem {
            return Err(broken(problem));
        }
        match self.params.into_keys().next() {
            Some(path) => Err(broken(format!("`{path}` is saved, and the policy has no such parameter"))),
            None => Ok(module),
        }
    }
}

fn broken(error: impl std::fmt::Display) -> Error {
    Error::invalid("weights", error.to_string())
}

enum Wanted<'a> {
    Trained,
    Frozen(Sha256),
    Same(&'a Weights),
}

struct Read<'a> {
    path: Vec<String>,
    params: BTreeMap<String, Saved>,
    wanted: Wanted<'a>,
    failed: Option<Error>,
}

impl Read<'_> {
    fn take(&mut self, id: ParamId, trained: bool, read: impl FnOnce() -> std::result::Result<TensorData, String>) {
        let path = self.path.join(".");
        let wanted = match &self.wanted {
            Wanted::Trained => trained,
            Wanted::Frozen(_) => !trained,
            Wanted::Same(like) => like.params.contains_key(&path),
        };
        if !wanted || self.failed.is_some() {
            return;
        }
        match (read(), &mut self.wanted) {
            (Err(problem), _) => {
                self.failed = Some(grpo_core::Error::Device { what: "parameters", problem: format!("{path}: {problem}") }.into())
            }
            (Ok(data), Wanted::Frozen(hash)) => {
                hash.update(format!("{path} {:?} {:?} ", data.shape(), data.dtype()));
                hash.update(data.as_bytes());
            }
            (Ok(data), _) => {
                self.params.insert(path, Saved { id: id.val(), data });
            }
        }
    }
}

impl ModuleVisitor for Read<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }
    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.take(param.id, param.is_require_grad(), || param.val().try_into_data().map_err(|e| format!("{e:?}")));
    }
    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.take(param.id, false, || param.val().try_into_data().map_err(|e| format!("{e:?}")));
    }
    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.take(param.id, false, || param.val().try_into_data().map_err(|e| format!("{e:?}")));
    }
}

struct Write<'a> {
    path: Vec<String>,
    params: &'a mut BTreeMap<String, Saved>,
    problem: Option<String>,
}

impl ModuleMapper for Write<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }
    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.join(".");
        let trained = param.is_require_grad();
        let Some(saved) = self.params.remove(&path) else {
            if trained {
                self.problem.get_or_insert(format!("`{path}` is trained, and is not saved"));
            }
            return param;
        };
        let (id, tensor, mapper) = param.consume();
        let given = (saved.data.shape().to_vec(), saved.data.dtype());
        let expected = (tensor.dims().to_vec(), tensor.dtype());
        if given != expected {
            self.problem.get_or_insert(format!("`{path}` is saved as {given:?}, the policy has {expected:?}"));
            return Param::from_mapped_value(id, tensor, mapper);
        }
        let loaded = Tensor::from_data(saved.data, (&tensor.device(), tensor.dtype()));
        let loaded = if trained { loaded.require_grad() } else { loaded };
        Param::from_mapped_value(ParamId::from(saved.id), loaded, mapper)
    }
}
