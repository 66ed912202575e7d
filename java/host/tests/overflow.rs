//! A stack that overflows throws.

#[path = "wasmtime/heaps.rs"]
mod heaps;

use std::sync::Arc;
use std::thread;

use rampart_heap::wasmtime::{HeapError, HeapPlan, HeapShare, throw_overflows};
use wasmtime::{
    Engine, ExnRef, ExnRefPre, ExnType, FuncType, Instance, Module, Result, Store, Tag, TagType, Val, ValType,
};

use crate::heaps::{config, plan};

/// Calls itself until the stack is full; the handler is in the frame of the first call.
const PROGRAM: &str = r#"
(module
    (import "" "tag" (tag $tag (param i32)))
    (func $down (param i32) (result i32)
        (i32.add (i32.const 1) (call $down (i32.add (local.get 0) (i32.const 1)))))
    (func (export "run") (result i32)
        (block $caught (result i32)
            (try_table (result i32) (catch $tag $caught)
                (call $down (i32.const 0))))))
"#;

fn run() -> Result<()> {
    throw_overflows(true);
    let engine = Engine::new(config().wasm_gc(true).wasm_exceptions(true).max_wasm_stack(1 << 20))?;
    let shared = Arc::new(HeapShare::default());
    HeapPlan { shared: Arc::clone(&shared), ..plan(256) }.leave().expect("1 MiB is large enough");
    let mut store = Store::new(&engine, ());
    let ty = TagType::new(FuncType::new(&engine, [ValType::I32], []));
    let tag = Tag::new(&mut store, &ty)?;
    let module = Module::new(&engine, PROGRAM)?;
    let instance = Instance::new(&mut store, &module, &[tag.into()])?;
    let program = instance.get_typed_func::<(), i32>(&mut store, "run")?;

    let allocator = ExnRefPre::new(&mut store, ExnType::from_tag_type(&ty)?);
    let exception = ExnRef::new(&mut store, &allocator, &tag, &[Val::I32(0x5ac)])?;
    shared.set_exception(HeapError::StackOverflow, exception.to_raw(&mut store)?);
    for _ in 0..3 {
        assert_eq!(program.call(&mut store, ())?, 0x5ac, "what the exception has");
        // It may move.
        store.gc(None)?;
    }
    Ok(())
}

#[test]
fn a_stack_that_overflows_throws_to_the_handlers_above() {
    // The functions that throw are called with no stack left of what wasmtime gives.
    let runner = thread::Builder::new().stack_size(16 << 20).spawn(run).expect("a thread can be started");
    runner.join().expect("it does not panic").expect("it does not fail");
}
