//! What compiled code checks before it reads an object or calls a function, so that the program can catch the error:
//! lost data, or a full stack.

use rampart_heap::LOST;
use rampart_heap::wasmtime::{ANY_TYPE, EXPECTED_TYPE, STACK_OVERFLOW, are_losses_thrown, are_overflows_thrown};
use wasmparser::{FunctionBody, Operator};

use super::*;

/// Traps if a reference is null, and throws if its object is lost. One comparison finds both: neither value is an
/// offset. Before the code throws, it says which type it expected, if it knows one. `java/build` puts calls of this
/// where wasmtime's `gc.rs` would look for null.
pub fn check_reference(
    func_env: &mut FuncEnvironment<'_>,
    builder: &mut FunctionBuilder<'_>,
    gc_ref: ir::Value,
    expected: Option<ModuleInternedTypeIndex>,
) {
    if !are_losses_thrown() {
        return func_env.trapz(builder, gc_ref, crate::TRAP_NULL_REFERENCE);
    }
    let (current_block, refused) = (builder.current_block().unwrap(), builder.create_block());
    let (lost, is_there) = (builder.create_block(), builder.create_block());
    builder.ensure_inserted_block();
    builder.insert_block_after(refused, current_block);
    builder.insert_block_after(lost, refused);
    builder.insert_block_after(is_there, lost);
    let below = builder.ins().iadd_imm_s(gc_ref, -1);
    let is_refused = builder.ins().icmp_imm_u(
        ir::condcodes::IntCC::UnsignedGreaterThanOrEqual,
        below,
        i64::from(LOST - 1),
    );
    builder.ins().brif(is_refused, refused, &[], is_there, &[]);

    builder.switch_to_block(refused);
    builder.seal_block(refused);
    builder.set_cold_block(refused);
    func_env.trapz(builder, gc_ref, crate::TRAP_NULL_REFERENCE);
    builder.ins().jump(lost, &[]);

    builder.switch_to_block(lost);
    builder.seal_block(lost);
    builder.set_cold_block(lost);
    say_thrown(func_env, builder, expected);
    // `write_gc_ref` of the collector puts the exception in its place.
    let builtin = func_env.builtin_functions.throw_ref(builder.func);
    let vmctx = func_env.vmctx_val(&mut builder.cursor());
    translate_throwing_builtin(func_env, builder, builtin, &[vmctx, gc_ref]).expect("a call of the runtime");

    builder.switch_to_block(is_there);
    builder.seal_block(is_there);
}

/// Throws if the object of a reference that is not null is lost.
pub fn check_lost(
    func_env: &mut FuncEnvironment<'_>,
    builder: &mut FunctionBuilder<'_>,
    gc_ref: ir::Value,
    expected: Option<ModuleInternedTypeIndex>,
) {
    if are_losses_thrown() {
        check_reference(func_env, builder, gc_ref, expected);
    }
}

/// Throws the error for a lost object where an exception with that object would be thrown: the code that catches it
/// would read its class, outside of its own handlers. `java/build` puts a call of this where wasmtime's `gc.rs` makes
/// such an exception.
pub fn check_thrown(
    func_env: &mut FuncEnvironment<'_>,
    builder: &mut FunctionBuilder<'_>,
    tag: TagIndex,
    content: &[ir::Value],
) -> WasmResult<()> {
    if !are_losses_thrown() {
        return Ok(());
    }
    let ty = func_env.module.tags[tag].exception.unwrap_module_type_index();
    let fields = &func_env.types.unwrap_exn(ty)?.fields;
    let is_object = |ty: WasmStorageType| matches!(ty, WasmStorageType::Val(ty) if ty.is_vmgcref_type_and_not_i31());
    let objects = fields.iter().zip(content).filter(|(field, _)| is_object(field.element_type));
    let objects: Vec<ir::Value> = objects.map(|(_, value)| *value).collect();
    for object in objects {
        let lost = ir::condcodes::IntCC::UnsignedGreaterThanOrEqual;
        let is_lost = builder.ins().icmp_imm_u(lost, object, i64::from(LOST));
        throw_if(func_env, builder, is_lost, object)?;
    }
    Ok(())
}

/// Throws a value if a condition holds: an exception, or what `write_gc_ref` of the collector puts an exception in the
/// place of.
pub(super) fn throw_if(
    func_env: &mut FuncEnvironment<'_>,
    builder: &mut FunctionBuilder<'_>,
    is_thrown: ir::Value,
    value: ir::Value,
) -> WasmResult<()> {
    let (current_block, refused) = (builder.current_block().unwrap(), builder.create_block());
    let goes_on = builder.create_block();
    builder.ensure_inserted_block();
    builder.insert_block_after(refused, current_block);
    builder.insert_block_after(goes_on, refused);
    builder.ins().brif(is_thrown, refused, &[], goes_on, &[]);

    builder.switch_to_block(refused);
    builder.seal_block(refused);
    builder.set_cold_block(refused);
    translate_exn_throw_ref(func_env, builder, value)?;

    builder.switch_to_block(goes_on);
    builder.seal_block(goes_on);
    Ok(())
}

/// Whether a function is to throw if the stack has no room left: if it may call others. wasmtime's own check is in the
/// prologue, before there is a frame that could throw, so it can only trap. `None` if nothing is to throw.
///
/// Functions that call no others check nothing: their frames fit into what the host has set aside.
pub fn throws_overflow(body: &FunctionBody<'_>) -> Option<bool> {
    let calls = |operator| {
        use Operator::*;
        let (Call { .. } | CallIndirect { .. } | CallRef { .. }) = operator else {
            return matches!(operator, ReturnCall { .. } | ReturnCallIndirect { .. } | ReturnCallRef { .. });
        };
        true
    };
    are_overflows_thrown().then(|| {
        let operators = body.get_operators_reader();
        operators.map_or(true, |operators| operators.into_iter().any(|operator| operator.map_or(true, calls)))
    })
}

/// Throws at the beginning of a function, or traps, if the stack has no room for what it calls. The handlers are those
/// of its callers.
pub fn check_overflow(
    func_env: &mut FuncEnvironment<'_>,
    builder: &mut FunctionBuilder<'_>,
    overflows: ir::Value,
) -> WasmResult<()> {
    if !are_overflows_thrown() {
        func_env.conditionally_trap(builder, overflows, ir::TrapCode::STACK_OVERFLOW);
        return Ok(());
    }
    let exception = builder.ins().iconst(ir::types::I32, i64::from(STACK_OVERFLOW));
    throw_if(func_env, builder, overflows, exception)
}

/// Records that the code is about to throw, and which type it expected, if any: if what it throws is lost, the
/// collector throws the exception for that. `java/build` puts a call of this where wasmtime's `gc.rs` throws.
pub fn say_thrown(
    func_env: &mut FuncEnvironment<'_>,
    builder: &mut FunctionBuilder<'_>,
    expected: Option<ModuleInternedTypeIndex>,
) {
    if !are_losses_thrown() {
        return;
    }
    let heap_data = CopyingCompiler::load_vmcopying_heap_data_ptr(func_env, builder);
    let expected = match expected {
        Some(ty) => func_env.module_interned_to_shared_ty(&mut builder.cursor(), ty),
        None => builder.ins().iconst(ir::types::I32, i64::from(ANY_TYPE)),
    };
    let region = func_env.alias_regions.vmcopying_heap_data_region(builder.func, u32::try_from(EXPECTED_TYPE).unwrap());
    let flags = ir::MemFlagsData::trusted().with_alias_region(Some(region));
    builder.ins().store(flags, expected, heap_data, i32::try_from(EXPECTED_TYPE).unwrap());
}
