/* The calls that start, test and complete requests in Fortran's form; they call ours of C. Handles are numbers, lists
 * begin at 1, logicals are Fortran's.
 *
 * Short lists of handles, and so nearly all, are converted on the stack. */
#include <stdbool.h>
#include <stdlib.h>

#include "fortran.h"

#define SHORT 64

/* Requests of a call as C's handles, with room for their statuses. */
struct converted {
    MPI_Request short_requests[SHORT];
    MPI_Status short_statuses[SHORT];
    MPI_Request *requests;
    MPI_Status *statuses;
};

static void convert(struct converted *list, int count, const MPI_Fint requests[])
{
    list->requests = list->short_requests;
    list->statuses = list->short_statuses;
    if (count > SHORT) {
        list->requests = malloc((size_t)count * sizeof *list->requests);
        list->statuses = malloc((size_t)count * sizeof *list->statuses);
        if (list->requests == NULL || list->statuses == NULL)
            abort();
    }
    for (int i = 0; i < count; i++)
        list->requests[i] = request_from_fortran(requests[i]);
}

static void hand_back(struct converted *list, int count, MPI_Fint requests[])
{
    for (int i = 0; i < count; i++)
        requests[i] = request_to_fortran(list->requests[i]);
    if (list->requests != list->short_requests) {
        free(list->requests);
        free(list->statuses);
    }
}

/* MPICH has others for Fortran 2008. Its mpi.h declares them, of types of its own. */
extern const char no_status_f08[] __asm__("MPIR_F08_MPI_STATUS_IGNORE_OBJ") __attribute__((weak));
extern const char no_statuses_f08[] __asm__("MPIR_F08_MPI_STATUSES_IGNORE_OBJ") __attribute__((weak));

bool is_status_ignored(const MPI_Fint *status)
{
    const void *place = status;
    return place == MPI_F_STATUS_IGNORE || place == MPI_F_STATUSES_IGNORE ||
           place == no_status_f08 || place == no_statuses_f08;
}

MPI_Status status_from_fortran(const MPI_Fint *status)
{
    MPI_Status of_c = { 0 };
    if (!is_status_ignored(status))
        PMPI_Status_f2c(status, &of_c);
    return of_c;
}

static void tell_status(const MPI_Status *from, MPI_Fint *status, int place)
{
    if (!is_status_ignored(status))
        PMPI_Status_c2f(from, status + place * FORTRAN_STATUS);
}

static void tell_statuses(const struct converted *list, int count, MPI_Fint *statuses)
{
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++)
        tell_status(&list->statuses[i], statuses, i);
}

static MPI_Fint from_one(int index)
{
    return index == MPI_UNDEFINED ? index : index + 1;
}

static void all_from_one(int count, MPI_Fint indices[])
{
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++)
        indices[i] = from_one(indices[i]);
}

FORTRAN(mpi_wait, MPI_WAIT, (MPI_Fint * request, MPI_Fint *status, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Request own = request_from_fortran(*request);
    MPI_Status mine = status_from_fortran(status);
    *error = MPI_Wait(&own, &mine);
    *request = request_to_fortran(own);
    tell_status(&mine, status, 0);
}

FORTRAN(mpi_test, MPI_TEST, (MPI_Fint * request, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Request own = request_from_fortran(*request);
    MPI_Status mine = status_from_fortran(status);
    int is_done = 0;
    *error = MPI_Test(&own, &is_done, &mine);
    *request = request_to_fortran(own);
    *flag = is_done;
    if (is_done)
        tell_status(&mine, status, 0);
}

FORTRAN(mpi_waitall, MPI_WAITALL, (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *statuses, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    struct converted list;
    convert(&list, *count, requests);
    *error = MPI_Waitall(*count, list.requests, list.statuses);
    tell_statuses(&list, *count, statuses);
    hand_back(&list, *count, requests);
}

FORTRAN(mpi_testall, MPI_TESTALL,
        (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *flag, MPI_Fint *statuses, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    struct converted list;
    int are_done = 0;
    convert(&list, *count, requests);
    *error = MPI_Testall(*count, list.requests, &are_done, list.statuses);
    *flag = are_done;
    if (are_done)
        tell_statuses(&list, *count, statuses);
    hand_back(&list, *count, requests);
}

FORTRAN(mpi_waitany, MPI_WAITANY,
        (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *status, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    struct converted list;
    int first = MPI_UNDEFINED;
    convert(&list, *count, requests);
    list.statuses[0] = status_from_fortran(status);
    *error = MPI_Waitany(*count, list.requests, &first, list.statuses);
    *index = from_one(first);
    tell_status(&list.statuses[0], status, 0);
    hand_back(&list, *count, requests);
}

FORTRAN(mpi_testany, MPI_TESTANY,
        (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *index, MPI_Fint *flag, MPI_Fint *status, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    struct converted list;
    int first = MPI_UNDEFINED, is_done = 0;
    convert(&list, *count, requests);
    list.statuses[0] = status_from_fortran(status);
    *error = MPI_Testany(*count, list.requests, &first, &is_done, list.statuses);
    *index = from_one(first);
    *flag = is_done;
    if (is_done)
        tell_status(&list.statuses[0], status, 0);
    hand_back(&list, *count, requests);
}

static int some(int (*of_c)(int, MPI_Request[], int *, int[], MPI_Status[]), int count, MPI_Fint *requests,
                MPI_Fint *completed, MPI_Fint *indices, MPI_Fint *statuses)
{
    struct converted list;
    convert(&list, count, requests);
    int result = of_c(count, list.requests, completed, indices, list.statuses);
    tell_statuses(&list, *completed, statuses);
    all_from_one(*completed, indices);
    hand_back(&list, count, requests);
    return result;
}

FORTRAN(mpi_waitsome, MPI_WAITSOME,
        (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *completed, MPI_Fint *indices, MPI_Fint *statuses,
         MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    *error = some(MPI_Waitsome, *count, requests, completed, indices, statuses);
}

FORTRAN(mpi_testsome, MPI_TESTSOME,
        (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *completed, MPI_Fint *indices, MPI_Fint *statuses,
         MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    *error = some(MPI_Testsome, *count, requests, completed, indices, statuses);
}

FORTRAN(mpi_start, MPI_START, (MPI_Fint * request, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Request own = request_from_fortran(*request);
    *error = MPI_Start(&own);
    *request = request_to_fortran(own);
}

FORTRAN(mpi_startall, MPI_STARTALL, (MPI_Fint * count, MPI_Fint *requests, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    struct converted list;
    convert(&list, *count, requests);
    *error = MPI_Startall(*count, list.requests);
    hand_back(&list, *count, requests);
}

FORTRAN(mpi_request_free, MPI_REQUEST_FREE, (MPI_Fint * request, MPI_Fint *error))
{
    ERROR_IS_OPTIONAL(error);
    MPI_Request own = request_from_fortran(*request);
    *error = MPI_Request_free(&own);
    *request = request_to_fortran(own);
}
