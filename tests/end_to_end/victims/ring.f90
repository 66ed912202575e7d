! A program that talks round a ring, and checks what it hears: what Fortran hands to MPI in ways of its own.
program ring
  use mpi
  implicit none
  integer :: error, rank, ranks, i, first, after, before, half
  integer :: requests(2), statuses(MPI_STATUS_SIZE, 2), status(MPI_STATUS_SIZE)
  double precision :: out(1000), in(1000), total(1)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, error)
  after = mod(rank + 1, ranks)
  before = mod(rank + ranks - 1, ranks)
  out = rank
  do i = 1, 10
     call MPI_Irecv(in, 1000, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, requests(1), error)
     call MPI_Isend(out, 1000, MPI_DOUBLE_PRECISION, after, 7, MPI_COMM_WORLD, requests(2), error)
     call MPI_Waitall(2, requests, statuses, error)
     if (statuses(MPI_SOURCE, 1) /= before .or. in(1000) /= before) stop 3
     call MPI_Sendrecv(out, 10, MPI_DOUBLE_PRECISION, before, 1, in, 10, MPI_DOUBLE_PRECISION, after, 1, &
          MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
     if (in(10) /= after) stop 4
     call MPI_Irecv(in, 1, MPI_DOUBLE_PRECISION, before, 8, MPI_COMM_WORLD, requests(1), error)
     call MPI_Send(out, 1, MPI_DOUBLE_PRECISION, after, 8, MPI_COMM_WORLD, error)
     requests(2) = MPI_REQUEST_NULL
     call MPI_Waitany(2, requests, first, status, error)
     if (first /= 1) stop 5
     total(1) = rank
     call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
     if (nint(total(1)) /= ranks * (ranks - 1) / 2) stop 6
     call MPI_Bcast(total, 1, MPI_DOUBLE_PRECISION, 0, half, error)
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Comm_free(half, error)
  call MPI_Finalize(error)
end program ring
