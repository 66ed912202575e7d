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
        Object type = Errors.lostClass(number);
        if (!(type instanceof Class)) {
            return "the data of an object is lost, and its class (number " + number + ")";
        }
        return "the data of an object of " + ((Class<?>) type).getName() + " is lost (number " + number + ")";
    }
}
