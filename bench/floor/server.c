/*
 * A minimal server: answers each request with one token at once, so that a client's starts can be measured where
 * the simulator, whose requests cost more than the client's, would be the limit. Each answer is the same.
 *
 *   server PORT
 *
 * It serves HTTP/1.1 with kept connections on 127.0.0.1 until it is killed. Requests must have a Content-Length if they
 * have a body. It sends header, token, usage, [DONE] and the end of the body in five pieces, as the simulator and real
 * engines do, and exits with 1 and a reason if the kernel refuses something. A request of which only a part has come
 * waits for the rest. A client that stops reading stops the server.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BATCH = 128, CONNECTIONS = 1 << 17, BUFFER = 4 << 10 };

/* connection holds the part of a request that has come. */
struct connection {
	size_t have;
	char buffer[BUFFER];
};

static struct connection *connections[CONNECTIONS];

static void die(const char *what)
{
	fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* HEADER is the head of every answer. */
#define HEADER "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
/* FRAME is the part of a frame before its choices. */
#define FRAME "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"choices\":["

static const char *const pieces[] = {
	HEADER,
	FRAME "{\"index\":0,\"text\":\" water\",\"finish_reason\":\"length\"}]}\n\n",
	FRAME "],\"usage\":{\"prompt_tokens\":10,\"total_tokens\":11,\"completion_tokens\":1}}\n\n",
	"data: [DONE]\n\n",
	"",
};

enum { PIECES = sizeof pieces / sizeof *pieces };

static char chunks[PIECES][512];
static size_t lengths[PIECES];

/* make_chunks gives the pieces the form in which they are sent. */
static void make_chunks(void)
{
	lengths[0] = sprintf(chunks[0], "%s", pieces[0]);
	for (int i = 1; i < PIECES; i++)
		lengths[i] = sprintf(chunks[i], "%zx\r\n%s\r\n", strlen(pieces[i]), pieces[i]);
}

/* answer sends an answer. A client that has gone is seen at the next read. */
static void answer(int fd)
{
	for (int i = 0; i < PIECES; i++)
		if (send(fd, chunks[i], lengths[i], MSG_NOSIGNAL) != (ssize_t)lengths[i])
			return;
}

/* request_length returns the length of the first request in a buffer, or 0 if it is not whole. */
static size_t request_length(const char *from, size_t have)
{
	const char *end = memmem(from, have, "\r\n\r\n", 4), *field;
	size_t length;

	if (end == NULL)
		return 0;
	length = end + 4 - from;
	field = memmem(from, length, "\r\nContent-Length: ", 18);
	if (field != NULL)
		length += strtoul(field + 18, NULL, 10);
	return length <= have ? length : 0;
}

/* take reads what a connection has, and answers whole requests. It returns 0 if the connection is over. */
static int take(int fd, struct connection *c)
{
	ssize_t n = recv(fd, c->buffer + c->have, BUFFER - c->have, MSG_DONTWAIT);
	size_t length;

	if (n < 0 && errno == EAGAIN)
		return 1;
	if (n <= 0)
		return 0;
	c->have += n;
	while ((length = request_length(c->buffer, c->have)) > 0) {
		answer(fd);
		c->have -= length;
		memmove(c->buffer, c->buffer + length, c->have);
	}
	return c->have < BUFFER; /* a larger request cannot be held */
}

/* admit accepts a connection. */
static void admit(int poll, int listener)
{
	struct epoll_event event = {.events = EPOLLIN};
	int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0 && (errno == ECONNABORTED || errno == EAGAIN))
		return;
	if (fd < 0 || fd >= CONNECTIONS)
		die("accept");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connections[fd] == NULL && (connections[fd] = malloc(sizeof **connections)) == NULL)
		die("memory");
	connections[fd]->have = 0;
	event.data.fd = fd;
	if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0)
		die("epoll_ctl");
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct epoll_event events[BATCH] = {{.events = EPOLLIN}};
	int one = 1, poll = epoll_create1(EPOLL_CLOEXEC), listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (argc != 2) {
		fputs("server: want PORT\n", stderr);
		return 1;
	}
	at.sin_port = htons(strtoul(argv[1], NULL, 10));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 4096) != 0)
		die("listen");
	make_chunks();
	events[0].data.fd = listener;
	if (epoll_ctl(poll, EPOLL_CTL_ADD, listener, events) != 0)
		die("epoll_ctl");
	for (;;) {
		int n = epoll_wait(poll, events, BATCH, -1);

		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == listener)
				admit(poll, listener);
			else if (!take(fd, connections[fd]))
				close(fd);
		}
	}
}
