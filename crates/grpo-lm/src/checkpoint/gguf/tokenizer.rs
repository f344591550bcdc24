//! The tokenizer inside a GGUF file.

use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior};

use super::header::{Header, Value};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How a text falls into words before merging.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Splitter {
    Gpt2,
    SmolLm,
    Qwen2,
    Llama3,
}

const NAMES: [(&str, Splitter); 6] = [
    ("gpt-2", Splitter::Gpt2),
    ("smollm", Splitter::SmolLm),
    ("qwen2", Splitter::Qwen2),
    ("llama-bpe", Splitter::Llama3),
    ("llama3", Splitter::Llama3),
    ("llama-v3", Splitter::Llama3),
];

// Kinds of tokens, as GGUF numbers them.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The tokenizer, unless the file has none.
pub(super) fn build(header: &Header) -> Result<Option<Tokenizer>> {
    let Some(model) = header.text("tokenizer.ggml.model")? else { return Ok(None) };
    match model {
        "gpt2" => {}
        "none" => return Ok(None),
        other => return Err(Error::unsupported("tokenizer.ggml.model", other, "gpt2")),
    }
    let pre = header.text("tokenizer.ggml.pre")?.unwrap_or("missing");
    let Some((_, splitter)) = NAMES.into_iter().find(|(name, _)| *name == pre) else {
        let supported = NAMES.map(|(name, _)| name).join(", ");
        return Err(Error::unsupported("tokenizer.ggml.pre", pre, supported));
    };
    let texts = |key: &str| match header.metadata.get(key) {
        Some(Value::Texts(texts)) => Ok(texts),
        _ => Err(header.bad(key, "must be a list of texts")),
    };
    let tokens = texts("tokenizer.ggml.tokens")?;
    let merges = texts("tokenizer.ggml.merges")?;
    let kinds = match header.metadata.get("tokenizer.ggml.token_type") {
        Some(Value::Wholes(kinds)) if kinds.len() == tokens.len() => kinds.as_slice(),
        None => &[],
        Some(_) => {
            let allowed = "must be a list as long as tokenizer.ggml.tokens";
            return Err(header.bad("tokenizer.ggml.token_type", allowed));
        }
    };
    // What llama.cpp assumes where the file does not say.
    let add_bos = header.switch("tokenizer.ggml.add_bos_token")?;
    let add_bos = add_bos.unwrap_or(splitter == Splitter::Llama3);
    let prefix = header.token("tokenizer.ggml.bos_token_id")?.filter(|_| add_bos);
    let tokenizer =
        byte_level(tokens, merges, kinds, splitter).map_err(|reason| Error::file(&header.path, format!("tokenizer: {reason}")))?;
    Ok(Some(Tokenizer::new(tokenizer, None, prefix)))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn byte_level(tokens: &[String], merges: &[String], kinds: &[i64], splitter: Splitter) -> Result<tokenizers::Tokenizer, BoxError> {
    let mut vocab = Vocab::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        if vocab.insert(token.clone(), u32::try_from(id)?).is_some() {
            return Err(format!("token {token:?} is there twice").into());
        }
    }
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        // Byte-level tokens hold no space of their own.
        let Some((left, right)) = merge.split_once(' ') else {
            return Err(format!("merge {merge:?} must be two tokens and a space").into());
        };
        // The builder of the library takes this for granted.
        for part in [left, right, &format!("{left}{right}")] {
            if !vocab.contains_key(part) {
                return Err(format!("merge {merge:?} uses {part:?}, which is no token").into());
            }
        }
        pairs.push((left.to_owned(), right.to_owned()));
    }
    let model = BPE::builder().vocab_and_merges(vocab, pairs).ignore_merges(splitter == Splitter::Llama3).build()?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(splitter.build()?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    if splitter == Splitter::Qwen2 {
        tokenizer.with_normalizer(Some(NFC))?;
    }
    let added = tokens.iter().zip(kinds).filter_map(|(token, kind)| match *kind {
        CONTROL => Some(AddedToken::from(token.as_str(), true).normalized(false)),
        USER_DEFINED => Some(AddedToken::from(token.as_str(), false).normalized(false)),
        _ => None,
    });
    tokenizer.add_tokens(added)?;
    Ok(tokenizer)
}

impl Splitter {
    fn build(self) -> Result<PreTokenizerWrapper, BoxError> {
        let by_pattern = |pattern: &str| -> Result<PreTokenizerWrapper, BoxError> {
            let pattern = SplitPattern::Regex(pattern.to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
            let bytes = ByteLevel::new(false, true, false);
            Ok(Sequence::new(vec![split.into(), bytes.into()]).into())
        };
        let gpt2 = ByteLevel::new(false, true, true);
        match self {
            Self::Gpt2 => Ok(gpt2.into()),
            Self::SmolLm => Ok(Sequence::new(vec![Digits::new(true).into(), gpt2.into()]).into()),
            Self::Qwen2 => by_pattern(QWEN2),
            Self::Llama3 => by_pattern(LLAMA3),
        }
    }
}
