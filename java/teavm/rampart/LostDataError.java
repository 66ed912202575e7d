package rampart;

/** The data of an object was lost with the memory that it was in: each access to it throws. */
public final class LostDataError extends VirtualMachineError {
    private final int number;
    private final boolean isForMany;

    LostDataError(int number, boolean isForMany) {
        this.number = number;
        this.isForMany = isForMany;
    }

    @Override
    public String getMessage() {
        if (isForMany) {
            return "the data of an object is lost (number " + number + " or above)";
        }
        String name = nameOf(Errors.lostClass(number));
        // The elements of an array lie elsewhere than its header.
        if (name == null && Errors.lostHolder(number) instanceof Class<?> holder && holder.isArray()) {
            name = nameOf(holder);
        }
        if (name != null) {
            return "the data of an object of " + name + " is lost (number " + number + ")";
        }
        name = nameOf(Errors.lostReadAs(number));
        return "the data of an object" + (name == null ? " is lost, and its class" : " that was read as " + name + " is lost")
            + " (number " + number + ")";
    }

    /** TeaVM keeps no names of arrays. */
    private static String nameOf(Object type) {
        if (!(type instanceof Class<?> known)) {
            return null;
        }
        return known.isArray() ? nameOf(known.getComponentType()) + "[]" : known.getName();
    }
}
