! Lists of types, and requests that the program itself ends, in Fortran.
module own
  use mpi
  implicit none
  integer :: asked = 0, freed = 0
contains
  subroutine query(state, status, error)
    integer(kind=MPI_ADDRESS_KIND) :: state
    integer :: status(MPI_STATUS_SIZE), error
    asked = asked + int(state)
    call MPI_Status_set_elements(status, MPI_INTEGER, 4, error)
    call MPI_Status_set_cancelled(status, .false., error)
    status(MPI_SOURCE) = 5
    status(MPI_TAG) = 6
    error = MPI_SUCCESS
  end subroutine query
  subroutine release(state, error)
    integer(kind=MPI_ADDRESS_KIND) :: state
    integer :: error
    freed = freed + int(state)
    error = MPI_SUCCESS
  end subroutine release
  subroutine cancel(state, is_complete, error)
    integer(kind=MPI_ADDRESS_KIND) :: state
    logical :: is_complete
    integer :: error
    error = MPI_SUCCESS
  end subroutine cancel
end module own

program types
  use mpi
  use own
  implicit none
  integer :: error, rank, ranks, i, request, wide, ring, count
  integer :: out(0:7), in(0:7), counts(0:3), places(0:3), kinds(0:3), status(MPI_STATUS_SIZE)
  integer(kind=MPI_ADDRESS_KIND) :: far(0:1), state
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Type_contiguous(2, MPI_INTEGER, wide, error)
  call MPI_Type_commit(wide, error)
  out = [(100 * rank + i, i = 0, 7)]
  counts = 1
  places = [(8 * i, i = 0, 3)]
  kinds = wide
  in = -1
  call MPI_Alltoallw(out, counts, places, kinds, in, counts, places, kinds, MPI_COMM_WORLD, error)
  if (any(in /= [(100 * (i / 2) + 2 * rank + mod(i, 2), i = 0, 7)])) stop 3
  call MPI_Alltoallw(MPI_IN_PLACE, counts, places, kinds, in, counts, places, kinds, MPI_COMM_WORLD, error)
  if (any(in /= out)) stop 4
  in = -1
  call MPI_Ialltoallw(out, counts, places, kinds, in, counts, places, kinds, MPI_COMM_WORLD, request, error)
  call MPI_Wait(request, status, error)
  if (any(in /= [(100 * (i / 2) + 2 * rank + mod(i, 2), i = 0, 7)])) stop 5
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring, error)
  far = [0, 8]
  in = -1
  call MPI_Neighbor_alltoallw(out, counts, far, kinds, in, counts, far, kinds, ring, error)
  if (in(0) / 100 /= mod(rank + ranks - 1, ranks) .or. in(2) / 100 /= mod(rank + 1, ranks)) stop 6
  state = 3
  call MPI_Grequest_start(query, release, cancel, state, request, error)
  call MPI_Grequest_complete(request, error)
  call MPI_Wait(request, status, error)
  call MPI_Get_count(status, MPI_INTEGER, count, error)
  if (request /= MPI_REQUEST_NULL .or. asked /= 3 .or. freed /= 3 .or. status(MPI_TAG) /= 6 .or. count /= 4) stop 7
  call shared_file()
  call MPI_Type_free(wide, error)
  call MPI_Comm_free(ring, error)
  if (rank == 0) print '(a)', 'done'
  call MPI_Finalize(error)
contains
  subroutine shared_file()
    integer :: file, sum
    integer(kind=MPI_OFFSET_KIND) :: place
    call MPI_File_open(MPI_COMM_WORLD, 'shared', MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, file, error)
    place = 16
    call MPI_File_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, error)
    call MPI_File_write_shared(file, rank, 1, MPI_INTEGER, status, error)
    call MPI_Barrier(MPI_COMM_WORLD, error)
    place = 0
    call MPI_File_seek_shared(file, place, MPI_SEEK_SET, error)
    call MPI_File_read_shared(file, i, 1, MPI_INTEGER, status, error)
    call MPI_Allreduce(i, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_File_get_position_shared(file, place, error)
    if (sum /= ranks * (ranks - 1) / 2 .or. place < 1 .or. place > ranks) stop 8
    call MPI_File_close(file, error)
  end subroutine shared_file
end program types
