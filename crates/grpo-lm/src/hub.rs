//! Models by their hub id (feature `hub`).

use std::path::PathBuf;

use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Repo, RepoType};

use crate::error::{Error, Result};

/// Where from, where to, and which revision.
///
/// What is `None` comes from the environment variables of the Hugging Face tools: `HF_ENDPOINT`,
/// `HF_HOME`, and the token that their login left.
#[derive(Debug, Clone, Default)]
pub struct HubOptions {
    /// The address of the hub, `http://127.0.0.1:8080`.
    pub endpoint: Option<String>,
    /// The folder of the cache.
    pub cache: Option<PathBuf>,
    /// A branch, tag or commit; `main` if `None`.
    pub revision: Option<String>,
}

/// Files that a model may do without.
const OPTIONAL: [&str; 4] = ["generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Brings the files of a model that [`Checkpoint::open`](crate::checkpoint::Checkpoint::open) reads to
/// this machine, and returns their folder. What is in the cache already is not fetched again.
///
/// # Errors
///
/// [`Error::Hub`] if the id is none, the hub cannot be reached, or the model has no safetensors.
///
/// ```
/// use grpo_lm::hub::{HubOptions, fetch};
///
/// // Nothing listens here.
/// let options = HubOptions { endpoint: Some("http://127.0.0.1:9".into()), ..HubOptions::default() };
/// let error = fetch("owner/name", &options).unwrap_err();
/// assert!(error.to_string().starts_with("hub: owner/name: "));
/// ```
pub fn fetch(id: &str, options: &HubOptions) -> Result<PathBuf> {
    let fail = |reason: String| Error::Hub { id: id.to_owned(), reason };
    check_id(id).map_err(fail)?;
    let mut builder = ApiBuilder::from_env().with_progress(false).with_retries(2);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/').to_owned());
    }
    if let Some(cache) = &options.cache {
        builder = builder.with_cache_dir(cache.clone());
    }
    let revision = options.revision.clone().unwrap_or_else(|| "main".to_owned());
    let api = builder.build().map_err(|error| fail(explain(&error)))?;
    let repo = api.repo(Repo::with_revision(id.to_owned(), RepoType::Model, revision));
    let info = repo.info().map_err(|error| fail(explain(&error)))?;
    let has = |name: &str| info.siblings.iter().any(|file| file.rfilename == name);
    let get = |name: &str| repo.get(name).map_err(|error| fail(format!("{name}: {}", explain(&error))));

    if !has("config.json") {
        return Err(fail("has no config.json".into()));
    }
    let config = get("config.json")?;
    for name in OPTIONAL.into_iter().filter(|name| has(name)) {
        get(name)?;
    }
    if has(SINGLE) {
        get(SINGLE)?;
    } else if has(INDEX) {
        get(INDEX)?;
        let shards = info.siblings.iter().map(|file| file.rfilename.as_str());
        for shard in shards.filter(|name| name.ends_with(".safetensors") && !name.contains('/')) {
            get(shard)?;
        }
    } else {
        return Err(fail(format!("has neither {SINGLE} nor {INDEX}")));
    }
    config.parent().map(PathBuf::from).ok_or_else(|| fail("the cache has no folder".into()))
}

fn check_id(id: &str) -> Result<(), String> {
    let word = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !part.is_empty() && !part.starts_with('.') && part.chars().all(plain)
    };
    match id.split('/').collect::<Vec<_>>().as_slice() {
        [owner, name] if word(owner) && word(name) => Ok(()),
        _ => Err("is no id: owner/name, letters, digits, '-', '_' and '.'".into()),
    }
}

/// The error and what is behind it: the outermost says little.
fn explain(error: &ApiError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    format!("{text} (is there a network, and does the model exist?)")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// Serves some files of one model as the hub does; lives as long as the test process.
    fn serve(files: &'static [(&str, &str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let request = lines.next().unwrap().unwrap();
                let headers: Vec<_> = lines.map_while(|l| l.ok().filter(|l| !l.is_empty())).collect();
                let path = request.split(' ').nth(1).unwrap();
                let siblings = files.iter().map(|(name, _)| serde_json::json!({ "rfilename": name }));
                let info = serde_json::json!({ "sha": "c0ffee", "siblings": siblings.collect::<Vec<_>>() });
                let info = info.to_string();
                let file = files.iter().find(|(name, _)| path.ends_with(&format!("/resolve/main/{name}")));
                let (status, body) = match file {
                    Some((_, text)) => ("206 Partial Content", *text),
                    None if path.starts_with("/api/models/owner/name") => ("200 OK", info.as_str()),
                    None => ("404 Not Found", ""),
                };
                let total = body.len();
                let probe = headers.iter().any(|h| h.to_lowercase() == "range: bytes=0-0");
                let body = if probe && file.is_some() { &body[..1] } else { body };
                let etag = path.replace('/', "-");
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes 0-{}/{total}\r\n\
                     ETag: \"{etag}\"\r\nx-repo-commit: c0ffee\r\nConnection: close\r\n\r\n{body}",
                    body.len(),
                    body.len().max(1) - 1,
                )
                .unwrap();
            }
        });
        format!("http://{address}")
    }

    fn options(endpoint: String, cache: &tempfile::TempDir) -> HubOptions {
        HubOptions { endpoint: Some(endpoint), cache: Some(cache.path().into()), revision: None }
    }

    #[test]
    fn the_needed_files_and_no_others_are_fetched() {
        let cache = tempfile::tempdir().unwrap();
        let endpoint = serve(&[
            ("config.json", "{}"),
            ("model.safetensors.index.json", "{ }"),
            ("model-1-of-1.safetensors", "weights"),
            ("tokenizer.json", "{  }"),
            ("pytorch_model.bin", "no"),
        ]);
        let folder = fetch("owner/name", &options(endpoint, &cache)).unwrap();
        let mut names: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let wanted = ["config.json", "model-1-of-1.safetensors", "model.safetensors.index.json", "tokenizer.json"];
        assert_eq!(names, wanted);
        assert_eq!(std::fs::read_to_string(folder.join("model-1-of-1.safetensors")).unwrap(), "weights");
    }

    #[test]
    fn what_is_missing_is_named() {
        let cache = tempfile::tempdir().unwrap();
        let endpoint = serve(&[("config.json", "{}"), ("pytorch_model.bin", "no")]);
        let error = fetch("owner/name", &options(endpoint.clone(), &cache)).unwrap_err().to_string();
        assert!(error.contains("neither model.safetensors nor"), "{error}");
        let error = fetch("owner/other", &options(endpoint, &cache)).unwrap_err().to_string();
        assert!(error.starts_with("hub: owner/other: ") && error.contains("404"), "{error}");
        for id in ["name", "../name", "owner/name/more", "owner/na me", ""] {
            assert!(fetch(id, &HubOptions::default()).unwrap_err().to_string().contains("is no id"), "{id}");
        }
    }
}
