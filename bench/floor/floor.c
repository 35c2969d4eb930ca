/*
 * The floor: what it costs a process to receive streams and do nothing with them. It opens streams to one endpoint,
 * sends the same request on each, reads with epoll and recv, and discards. Only a client that reads less often, or not
 * at all, can cost less.
 *
 *   floor PORT REQUEST_FILE STREAMS WARMUP_SECONDS SECONDS [stamps]
 *
 * With "stamps" the kernel timestamps received data, and the program reads data and timestamps with recvmsg, as a
 * client must to know when a frame came.
 *
 * REQUEST_FILE is the whole HTTP request, sent as it is. When each stream has had bytes and the warm-up is over, the
 * program measures for SECONDS and prints one line, like bench/frames:
 *
 *   client=floor (or stamps) streams=N seconds=S frames=N bytes=N reads=N user_us=U sys_us=S
 *
 * Times are those of the process, per frame. Frames, which start with "data:", are counted only during the warm-up.
 * Later their number is computed from the bytes, so that the measured part looks at no byte. The program exits with 1
 * and a reason if a stream fails or ends.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 128, BUFFER = 64 << 10, PATIENCE_S = 30 };

/* tally is what was received, and what it cost. */
struct tally {
	uint64_t bytes, frames, reads;
	double at, user_us, sys_us;
};

static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("floor: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double microseconds(struct timeval t) { return t.tv_sec * 1e6 + t.tv_usec; }

/* stop_watch records the time and the CPU time that the process has used. */
static void stop_watch(struct tally *t)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	t->at = now();
	t->user_us = microseconds(used.ru_utime);
	t->sys_us = microseconds(used.ru_stime);
}

/* number parses an argument that must be between 1 and most. */
static long number(const char *text, long most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end != '\0' || n < 1 || n > most)
		die("%s: want a number from 1 to %ld", text, most);
	return n;
}

/* read_request returns the contents of a file in static memory. */
static char *read_request(const char *path, size_t *length)
{
	static char request[1 << 20];
	FILE *f = fopen(path, "rb");

	if (f == NULL)
		die("%s: %s", path, strerror(errno));
	*length = fread(request, 1, sizeof request, f);
	if (ferror(f) || !feof(f))
		die("%s: cannot be read as a whole", path);
	fclose(f);
	return request;
}

/* stamps: receive timestamps are on. */
static int stamps;

/* open_stream connects, sends the request and adds the socket to epoll, edge-triggered as in Go's runtime. */
static void open_stream(int poll, const struct sockaddr_in *server, const char *request, size_t length)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (stamps && setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one) != 0)
		die("SO_TIMESTAMPNS: %s", strerror(errno));
	if (connect(fd, (const struct sockaddr *)server, sizeof *server) != 0)
		die("connect: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (send(fd, request, length, MSG_NOSIGNAL) != (ssize_t)length)
		die("send: the request was not taken at once");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		die("fcntl: %s", strerror(errno));
	event.data.fd = fd;
	if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0)
		die("epoll_ctl: %s", strerror(errno));
}

/*
 * frames_in counts the events that start in a piece. It misses a start that is split over two pieces, which does not
 * matter among the many events of the warm-up.
 */
static uint64_t frames_in(const char *piece, size_t length)
{
	const char *end = piece + length;
	uint64_t n = 0;

	for (; (piece = memmem(piece, end - piece, "data:", 5)) != NULL; piece += 5)
		n++;
	return n;
}

/* take reads what there is, with its timestamp if those are on. */
static ssize_t take(int fd, char *buffer, size_t size)
{
	static char control[64];
	struct iovec vector = {buffer, size};
	struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};

	return stamps ? recvmsg(fd, &message, 0) : recv(fd, buffer, size, 0);
}

/* drain reads all that a socket has. A read that does not fill the buffer empties it: later bytes make a new edge. */
static void drain(int fd, int count, struct tally *t)
{
	static char buffer[BUFFER];
	ssize_t n;

	do {
		n = take(fd, buffer, sizeof buffer);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			die("a stream ended: %s", n < 0 ? strerror(errno) : "closed by the server");
		t->reads++;
		t->bytes += n;
		if (count)
			t->frames += frames_in(buffer, n);
	} while (n == sizeof buffer);
}

/* receive discards data until an instant, or if until is 0, until there was one read per stream. */
static void receive(int poll, double until, uint64_t streams, int count, struct tally *t)
{
	struct epoll_event events[BATCH];
	double begun = now();

	while (until > 0 ? now() < until : t->reads < streams) {
		int n = epoll_wait(poll, events, BATCH, 100);

		if (n < 0 && errno != EINTR)
			die("epoll_wait: %s", strerror(errno));
		for (int i = 0; i < n; i++)
			drain(events[i].data.fd, count, t);
		if (until == 0 && now() - begun > PATIENCE_S)
			die("only %lu reads in %d s: does the server stream?", (unsigned long)t->reads, PATIENCE_S);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct tally warm = {0}, begin = {0}, end = {0};
	size_t length;

	if (argc != 6 && (argc != 7 || strcmp(argv[6], "stamps") != 0))
		die("want PORT REQUEST_FILE STREAMS WARMUP_SECONDS SECONDS [stamps]");
	stamps = argc == 7;
	server.sin_port = htons(number(argv[1], 65535));
	char *request = read_request(argv[2], &length);
	long streams = number(argv[3], 60000), warmup = number(argv[4], 3600), seconds = number(argv[5], 3600);
	int poll = epoll_create1(EPOLL_CLOEXEC);

	for (long i = 0; i < streams; i++)
		open_stream(poll, &server, request, length);
	receive(poll, 0, streams, 0, &warm);
	warm = (struct tally){0};
	receive(poll, now() + warmup, 0, 1, &warm);
	if (warm.frames == 0)
		die("no frame in %ld s", warmup);

	stop_watch(&begin);
	receive(poll, begin.at + seconds, 0, 0, &end);
	stop_watch(&end);

	double frames = end.bytes * ((double)warm.frames / warm.bytes);
	printf("client=%s streams=%ld seconds=%.3f frames=%.0f bytes=%lu reads=%lu user_us=%.3f sys_us=%.3f\n", stamps ? "stamps" : "floor", streams, end.at - begin.at,
	       frames, (unsigned long)end.bytes, (unsigned long)end.reads, (end.user_us - begin.user_us) / frames,
	       (end.sys_us - begin.sys_us) / frames);
	return 0;
}
