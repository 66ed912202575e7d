package rampart;

import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.teavm.dependency.AbstractDependencyListener;
import org.teavm.dependency.DependencyAgent;
import org.teavm.dependency.DependencyNode;
import org.teavm.dependency.MethodDependency;
import org.teavm.model.BasicBlock;
import org.teavm.model.ClassHolder;
import org.teavm.model.ClassHolderTransformer;
import org.teavm.model.ClassHolderTransformerContext;
import org.teavm.model.Instruction;
import org.teavm.model.MethodDescriptor;
import org.teavm.model.MethodHolder;
import org.teavm.model.MethodReference;
import org.teavm.model.ValueType;
import org.teavm.model.Variable;
import org.teavm.model.instructions.ArrayLengthInstruction;
import org.teavm.model.instructions.BinaryInstruction;
import org.teavm.model.instructions.BinaryOperation;
import org.teavm.model.instructions.CastInstruction;
import org.teavm.model.instructions.CloneArrayInstruction;
import org.teavm.model.instructions.ConstructArrayInstruction;
import org.teavm.model.instructions.ConstructMultiArrayInstruction;
import org.teavm.model.instructions.GetElementInstruction;
import org.teavm.model.instructions.GetFieldInstruction;
import org.teavm.model.instructions.IntegerConstantInstruction;
import org.teavm.model.instructions.InvocationType;
import org.teavm.model.instructions.InvokeInstruction;
import org.teavm.model.instructions.IsInstanceInstruction;
import org.teavm.model.instructions.LongConstantInstruction;
import org.teavm.model.instructions.NumericOperandType;
import org.teavm.model.instructions.PutElementInstruction;
import org.teavm.model.instructions.PutFieldInstruction;
import org.teavm.model.instructions.UnwrapArrayInstruction;
import org.teavm.vm.spi.TeaVMHost;
import org.teavm.vm.spi.TeaVMPlugin;

/**
 * Tells TeaVM which errors the runtime throws. TeaVM compiles the handlers of an exception only for the classes that
 * some code throws, and knows of no code that throws an OutOfMemoryError. So it is told that each method may. Where
 * objects are used without a call, one of a method that does nothing is put before.
 */
public final class Plugin implements TeaVMPlugin {
    private static final List<ValueType> ERRORS =
        List.of(ValueType.parse(OutOfMemoryError.class), ValueType.parse(NegativeArraySizeException.class),
            ValueType.parse(StackOverflowError.class), ValueType.parse(LostDataError.class));
    private static final List<MethodReference> LOST_CLASSES = Stream.of("lostClass", "lostHolder", "lostExpected")
        .map(name -> new MethodReference(Errors.class, name, int.class, Object.class)).toList();
    private static final List<Class<?>> PRIMITIVES = List.of(boolean.class, byte.class, short.class, char.class,
        int.class, long.class, float.class, double.class);
    /** What makes an array, or reads or writes an object, without a call. */
    private static final Set<Class<?>> THROWING =
        Set.of(ConstructArrayInstruction.class, ConstructMultiArrayInstruction.class, GetFieldInstruction.class,
            PutFieldInstruction.class, GetElementInstruction.class, PutElementInstruction.class,
            ArrayLengthInstruction.class, UnwrapArrayInstruction.class, CastInstruction.class,
            IsInstanceInstruction.class, CloneArrayInstruction.class);

    @Override
    public void install(TeaVMHost host) {
        host.add(new AllThrow());
        host.add(new ArraysThrow());
        host.add(new DivisionsThrow());
        host.add(new SystemCollects());
        host.add(new InternReturns());
        host.add(new PoolForgets());
    }

    private static final class AllThrow extends AbstractDependencyListener {
        @Override
        public void started(DependencyAgent agent) {
            PRIMITIVES.forEach(type -> keepName(agent, ValueType.parse(type)));
        }

        @Override
        public void classReached(DependencyAgent agent, String name) {
            keepName(agent, ValueType.object(name));
        }

        /** TeaVM drops the names of classes for which nobody can ask. A lost object can be of any class. */
        private static void keepName(DependencyAgent agent, ValueType type) {
            for (MethodReference source : LOST_CLASSES) {
                DependencyNode lost = agent.linkMethod(source).getResult();
                lost.propagate(agent.getType(ValueType.object("java.lang.Class")));
                lost.getClassValueNode().propagate(agent.getType(type));
            }
        }

        @Override
        public void methodReached(DependencyAgent agent, MethodDependency method) {
            ERRORS.forEach(error -> method.getThrown().propagate(agent.getType(error)));
        }
    }

    private static final class ArraysThrow implements ClassHolderTransformer {
        @Override
        public void transformClass(ClassHolder type, ClassHolderTransformerContext context) {
            for (MethodHolder method : type.getMethods()) {
                if (method.getProgram() != null) {
                    method.getProgram().getBasicBlocks().forEach(ArraysThrow::transformBlock);
                }
            }
        }

        private static void transformBlock(BasicBlock block) {
            if (block.getTryCatchBlocks().isEmpty()) {
                return;
            }
            for (Instruction instruction : block) {
                if (THROWING.contains(instruction.getClass())) {
                    InvokeInstruction call = new InvokeInstruction();
                    call.setType(InvocationType.SPECIAL);
                    call.setMethod(new MethodReference(Nothing.class, "mayThrow", void.class));
                    call.setLocation(instruction.getLocation());
                    instruction.insertPrevious(call);
                    return;
                }
            }
        }
    }

    /** TeaVM's System.gc() does nothing in WebAssembly. */
    private static final class SystemCollects implements ClassHolderTransformer {
        @Override
        public void transformClass(ClassHolder type, ClassHolderTransformerContext context) {
            if (type.getName().equals("java.lang.System")) {
                InvokeInstruction call = new InvokeInstruction();
                call.setType(InvocationType.SPECIAL);
                call.setMethod(new MethodReference(Collecting.class, "collect", void.class));
                type.getMethod(new MethodDescriptor("gc", void.class)).getProgram().basicBlockAt(0).addFirst(call);
            }
        }
    }

    /** TeaVM does not know that String.intern() returns a string, and leaves out what a program calls only on such. */
    private static final class InternReturns extends AbstractDependencyListener {
        private static final MethodReference INTERN = new MethodReference(String.class, "intern", String.class);

        @Override
        public void methodReached(DependencyAgent agent, MethodDependency method) {
            if (method.getReference().equals(INTERN)) {
                method.getResult().propagate(agent.getType(ValueType.object("java.lang.String")));
            }
        }
    }

    /** TeaVM's pool of interned strings throws if it meets one that is gone. */
    private static final class PoolForgets implements ClassHolderTransformer {
        private static final MethodReference EQUALS =
            new MethodReference(String.class, "equals", Object.class, boolean.class);

        @Override
        public void transformClass(ClassHolder type, ClassHolderTransformerContext context) {
            if (type.getName().equals("org.teavm.backend.wasm.runtime.StringInternPool")) {
                MethodHolder query = type.getMethod(new MethodDescriptor("query", String.class, String.class));
                query.getProgram().getBasicBlocks().forEach(PoolForgets::transformBlock);
            }
        }

        private static void transformBlock(BasicBlock block) {
            for (Instruction instruction : block) {
                if (instruction instanceof InvokeInstruction compare && compare.getMethod().equals(EQUALS)) {
                    Variable pooled = compare.getInstance();
                    Variable wanted = compare.getArguments().get(0);
                    compare.setType(InvocationType.SPECIAL);
                    compare.setMethod(
                        new MethodReference(Interned.class, "isSame", String.class, String.class, boolean.class));
                    compare.setInstance(null);
                    compare.setArguments(pooled, wanted);
                }
            }
        }
    }

    /** WebAssembly traps where Java throws, or negates the least number: whole numbers are divided by methods. */
    private static final class DivisionsThrow implements ClassHolderTransformer {
        @Override
        public void transformClass(ClassHolder type, ClassHolderTransformerContext context) {
            if (type.getName().equals(Division.class.getName())) {
                return;
            }
            for (MethodHolder method : type.getMethods()) {
                if (method.getProgram() != null) {
                    method.getProgram().getBasicBlocks().forEach(DivisionsThrow::transformBlock);
                }
            }
        }

        private static void transformBlock(BasicBlock block) {
            for (Instruction instruction : block) {
                if (instruction instanceof BinaryInstruction binary && divides(binary) && !isByOther(binary)) {
                    Class<?> operand = binary.getOperandType() == NumericOperandType.INT ? int.class : long.class;
                    String name = binary.getOperation() == BinaryOperation.DIVIDE ? "divide" : "rest";
                    InvokeInstruction call = new InvokeInstruction();
                    call.setType(InvocationType.SPECIAL);
                    call.setMethod(new MethodReference(Division.class, name, operand, operand, operand));
                    call.setArguments(binary.getFirstOperand(), binary.getSecondOperand());
                    call.setReceiver(binary.getReceiver());
                    call.setLocation(binary.getLocation());
                    binary.replace(call);
                }
            }
        }

        private static boolean divides(BinaryInstruction binary) {
            boolean isDivision = binary.getOperation() == BinaryOperation.DIVIDE
                || binary.getOperation() == BinaryOperation.MODULO;
            boolean isWhole = binary.getOperandType() == NumericOperandType.INT
                || binary.getOperandType() == NumericOperandType.LONG;
            return isDivision && isWhole;
        }

        /** Whether the divisor is a constant other than 0 and -1. */
        private static boolean isByOther(BinaryInstruction binary) {
            Instruction before = binary.getPrevious();
            if (before instanceof IntegerConstantInstruction number && number.getReceiver() == binary.getSecondOperand()) {
                return number.getConstant() != 0 && number.getConstant() != -1;
            }
            if (before instanceof LongConstantInstruction number && number.getReceiver() == binary.getSecondOperand()) {
                return number.getConstant() != 0 && number.getConstant() != -1;
            }
            return false;
        }
    }
}
