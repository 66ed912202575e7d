! A program that talks round a ring with the module mpi_f08, and checks what it hears: sections of arrays, messages from
! any source, statuses or none, errors that it asks for or not, an operation and an attribute of its own.
module own
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
contains
  ! Adds complex numbers in two reals each.
  subroutine add(in, inout, length, type)
    type(c_ptr), value :: in, inout
    integer :: length
    type(MPI_Datatype) :: type
    double precision, pointer :: given(:), sum(:)
    call c_f_pointer(in, given, [2 * length])
    call c_f_pointer(inout, sum, [2 * length])
    sum = sum + given
    if (type == MPI_DATATYPE_NULL) stop 2
  end subroutine add

  subroutine copy(comm, key, extra, value, copied, flag, error)
    type(MPI_Comm) :: comm
    integer :: key, error
    integer(MPI_ADDRESS_KIND) :: extra, value, copied
    logical :: flag
    copied = value + extra
    flag = comm /= MPI_COMM_NULL .and. key /= MPI_KEYVAL_INVALID
    error = MPI_SUCCESS
  end subroutine copy
end module own

program ring
  use own
  implicit none
  integer :: error, rank, ranks, i, first, after, before, many, key
  logical :: flag
  integer(MPI_ADDRESS_KIND) :: value
  type(MPI_Comm) :: half, graph
  type(MPI_Datatype) :: pairs
  type(MPI_Op) :: addition
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Message) :: message
  double precision, asynchronous :: out(2, 500), in(2, 500), field(8, 8)
  double precision :: total(2)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, i)
  if (error /= MPI_SUCCESS .or. name(:i) /= 'MPI_COMM_WORLD') stop 3
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
  call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pairs)
  call MPI_Type_commit(pairs)
  call MPI_Op_create(add, .true., addition)
  after = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  do i = 1, 10
     out = rank + i
     call MPI_Irecv(in, 1000, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, requests(1))
     call MPI_Isend(out, 1000, MPI_DOUBLE_PRECISION, after, 7, MPI_COMM_WORLD, requests(2))
     call MPI_Waitall(2, requests, statuses)
     call MPI_Get_count(statuses(1), MPI_DOUBLE_PRECISION, many)
     if (statuses(1)%MPI_SOURCE /= before .or. many /= 1000 .or. in(2, 500) /= before + i) stop 4
     if (requests(1) /= MPI_REQUEST_NULL) stop 5

     ! Every second element of a row, and every second row; what lies between them stays.
     field = -1
     call MPI_Send(out(1, 1:500:3), 100, MPI_DOUBLE_PRECISION, after, 8, MPI_COMM_WORLD)
     call MPI_Recv(field(1:8:2, 1:8:2), 16, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 8, MPI_COMM_WORLD, status)
     call MPI_Recv(in(2, 1:199:2), 100, MPI_DOUBLE_PRECISION, before, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
     if (in(2, 3) /= before + i .or. status%MPI_SOURCE /= MPI_PROC_NULL .or. error /= MPI_SUCCESS) stop 6
     call MPI_Sendrecv(out(:, 1:8), 16, MPI_DOUBLE_PRECISION, before, 1, field(1:8:2, 1:8:2), 16, &
          MPI_DOUBLE_PRECISION, after, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
     if (nint(sum(field)) /= 16 * (after + i) - 48 .or. any(field(2:8:2, :) /= -1)) stop 7
     if (MPI_SUBARRAYS_SUPPORTED) then
        call MPI_Irecv(field(2:8:2, 5), 4, MPI_DOUBLE_PRECISION, before, 2, MPI_COMM_WORLD, requests(1))
        call MPI_Isend(out(1, 1:10:3), 4, MPI_DOUBLE_PRECISION, after, 2, MPI_COMM_WORLD, requests(2))
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
        if (nint(sum(field)) /= 16 * (after + i) - 44 + 4 * (before + i)) stop 8
     end if

     call MPI_Send(out, 2, MPI_DOUBLE_PRECISION, after, 9, MPI_COMM_WORLD)
     status%MPI_ERROR = 77
     call MPI_Mprobe(before, MPI_ANY_TAG, MPI_COMM_WORLD, message, status)
     call MPI_Mrecv(in, 1, pairs, message, status)
     if (status%MPI_TAG /= 9 .or. status%MPI_ERROR /= 77 .or. in(1, 1) /= before + i) stop 9
     call MPI_Irecv(in, 1, MPI_DOUBLE_PRECISION, before, 3, MPI_COMM_WORLD, requests(1))
     call MPI_Send(out, 1, MPI_DOUBLE_PRECISION, after, 3, MPI_COMM_WORLD)
     flag = .false.
     do while (.not. flag)
        call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE)
     end do
     if (requests(1) /= MPI_REQUEST_NULL .or. in(1, 1) /= before + i) stop 10

     total = [rank, 1]
     call MPI_Allreduce(MPI_IN_PLACE, total, 1, pairs, addition, MPI_COMM_WORLD)
     if (nint(total(1)) /= ranks * (ranks - 1) / 2 .or. nint(total(2)) /= ranks) stop 11
     call MPI_Bcast(total, 2, MPI_DOUBLE_PRECISION, 0, half)
  end do
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], MPI_UNWEIGHTED, 1, [after], MPI_UNWEIGHTED, &
       MPI_INFO_NULL, .false., graph)
  call MPI_Dist_graph_neighbors_count(graph, i, first, flag)
  if (flag) stop 12
  call MPI_Neighbor_allgather(out, 1, MPI_DOUBLE_PRECISION, in, 1, MPI_DOUBLE_PRECISION, graph)
  if (in(1, 1) /= before + 10) stop 13
  call MPI_Comm_free(graph)
  call MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, key, 1_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(half, key, 41_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(half, graph)
  call MPI_Comm_get_attr(graph, key, value, flag)
  if (.not. flag .or. value /= 42) stop 14
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  if (.not. flag) stop 15
  ! Nobody writes into what stands for no status.
  if (MPI_STATUS_IGNORE%MPI_TAG /= 0 .or. MPI_STATUSES_IGNORE(1)%MPI_TAG /= 0) stop 16
  if (rank == 0) print '(a, 2f6.1)', 'sums', total
  call MPI_Comm_free(graph)
  call MPI_Comm_free(half)
  call MPI_Op_free(addition)
  call MPI_Type_free(pairs)
  call MPI_Finalize()
end program ring
