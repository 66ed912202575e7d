//! The values of JavaScript that Java programs handle: what an `externref` holds.

use std::sync::Arc;

use wasmtime::{AsContext, AsContextMut, ExternRef, Func, Result, Rooted, Val};

use crate::weak::WeakHandle;

/// A value.
#[derive(Clone, Debug)]
pub enum JsValue {
    /// `undefined`.
    Undefined,
    /// A text, in units of UTF-16.
    Text(Arc<[u16]>),
    /// A number without a fraction.
    Int(i32),
    /// An array.
    Array(Arc<[JsValue]>),
    /// An object or a class without properties.
    Object,
    /// A Java method.
    Function(Func),
    /// A function of JavaScript, by its text.
    Script(Arc<[u16]>),
    /// A weak reference to a Java object.
    Weak(Arc<WeakHandle>),
}

impl JsValue {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.encode_utf16().collect())
    }

    /// What an `externref` holds, if it is a value of ours.
    pub fn of(store: impl AsContext, reference: &Rooted<ExternRef>) -> Result<Option<Self>> {
        let data = reference.data(&store)?;
        Ok(data.and_then(|data| data.downcast_ref::<Self>().cloned()))
    }

    /// What a value of WebAssembly holds; `undefined` if that is nothing of ours.
    pub fn held(store: impl AsContext, value: &Val) -> Result<Self> {
        let Val::ExternRef(Some(reference)) = value else { return Ok(Self::Undefined) };
        Ok(Self::of(store, reference)?.unwrap_or(Self::Undefined))
    }

    /// A reference to it, for WebAssembly.
    pub fn reference(self, store: impl AsContextMut) -> Result<Val> {
        Ok(Val::ExternRef(Some(ExternRef::new(store, self)?)))
    }

    /// What `typeof` says of it.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Text(_) => "string",
            Self::Int(_) => "number",
            Self::Function(_) | Self::Script(_) => "function",
            Self::Array(_) | Self::Object | Self::Weak(_) => "object",
        }
    }

    /// A property: those that programs without a browser ask for.
    pub fn property(&self, key: &Self) -> Self {
        match (self, key) {
            (Self::Array(items), Self::Int(index)) => {
                let item = usize::try_from(*index).ok().and_then(|index| items.get(index));
                item.cloned().unwrap_or(Self::Undefined)
            }
            (Self::Array(items), Self::Text(_)) => Self::Int(i32::try_from(items.len()).unwrap_or(i32::MAX)),
            (Self::Text(text), Self::Text(_)) => Self::Int(i32::try_from(text.len()).unwrap_or(i32::MAX)),
            _ => Self::Undefined,
        }
    }
}
