//! Checkpoints, compared from outside.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Bytes;

/// The files of a checkpoint that must be equal.
pub fn files(folder: &Path, step: u64) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder.join(format!("step-{step}"))).unwrap();
    let paths = entries.map(|e| e.unwrap().path());
    paths.map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&p).unwrap())).collect()
}

/// The same, whatever ids the parameters were drawn with: weights by path, moments by the path of their parameter.
pub fn tensors(folder: &Path, step: u64) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let files = files(folder, step);
    let read = |name: &str| burn_pack::Reader::from_bytes(Bytes::from_bytes_vec(files[name].clone())).unwrap();
    let mut paths = BTreeMap::new();
    for tensor in read("policy.bpk").into_tensors().unwrap() {
        paths.insert(tensor.param_id.unwrap(), tensor.name.clone());
        all.insert(tensor.name.clone(), tensor.into_bytes().unwrap().to_vec());
    }
    let optimizer = read("optimizer.bpk");
    for (name, value) in optimizer.scalars() {
        let (id, field) = name.split_once('.').unwrap();
        all.insert(format!("{} {field}", paths[&id.parse().unwrap()]), format!("{value:?}").into_bytes());
    }
    for tensor in optimizer.into_tensors().unwrap() {
        let field = tensor.name.split_once('.').unwrap().1.to_owned();
        all.insert(format!("{} {field}", paths[&tensor.param_id.unwrap()]), tensor.into_bytes().unwrap().to_vec());
    }
    all
}
