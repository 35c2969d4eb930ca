package misbehaving

import (
	"fmt"
	"strings"
)

// Classes of docs/results.md. An answer with the class completed is odd, but complete.
const (
	completed   = ""
	connect     = "connect"
	badTLS      = "tls"
	timeout     = "timeout"
	streamError = "stream_error"
	cutStream   = "cut_stream"
	badFrame    = "bad_frame"
	emptyOutput = "empty_output"
	outOfRange  = "out_of_range"
	runaway     = "runaway"
)

// fault is one way to misbehave.
type fault struct {
	name string
	// class returns the class of each request according to docs/results.md. If chance decides, it returns several,
	// separated by |.
	class func(a api) string
	// answer answers a request.
	answer func(w *wire, a api)
	// handle replaces answer, and handles a whole connection.
	handle func(w *wire, a api)
	// apis reports which APIs can have the fault. nil: all.
	apis func(a api) bool
	// tokens returns the tokens of a completed answer, if they are not those of a valid one.
	tokens func(a api) uint64
}

// always returns the same class for every API.
func always(class string) func(api) string { return func(api) string { return class } }

// byMark returns one class for APIs whose streams say that they have ended, and another for the rest.
func byMark(marked, unmarked string) func(api) string {
	return func(a api) string {
		if a.marked() {
			return marked
		}
		return unmarked
	}
}

func tellsUsage(a api) bool  { return a.usage }
func tellsCached(a api) bool { return a.cached }
func hasMark(a api) bool     { return a.mark("", a.truth()) != "" }
func isOpenAI(a api) bool    { return a.name == "chat" || a.name == "completions" }

// number returns a token count that is the same in all APIs.
func number(n uint64) func(api) uint64 { return func(api) uint64 { return n } }

// raw sends bytes as they are, and closes the connection.
func raw(text string) func(*wire, api) {
	return func(w *wire, _ api) {
		w.send(text)
		w.fin()
	}
}

// body answers with a stream that ends properly.
func body(text func(a api) string) func(*wire, api) {
	return func(w *wire, a api) { w.send(chunkedHead + chunk(text(a)) + lastChunk) }
}

// behind answers with a stream that has some text after its n-th token, and then continues.
func behind(n int, text string) func(*wire, api) {
	return body(func(a api) string {
		sound := a.sound()
		return a.start(n) + text + strings.TrimPrefix(sound, a.start(n))
	})
}

// status answers with an HTTP status and the API's own error.
func status(line string, headers ...string) func(*wire, api) {
	return func(w *wire, a api) {
		w.send(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
			line, strings.Join(headers, ""), len(a.refusal), a.refusal))
	}
}

// whole answers with one JSON body and the right content length.
func whole(text string) func(*wire, api) {
	return func(w *wire, _ api) { w.send(sized("200 OK", "application/json", text)) }
}

// head answers with a valid stream after a custom head.
func head(text string) func(*wire, api) {
	return func(w *wire, a api) {
		w.send(text + a.sound())
		w.fin()
	}
}

// chunks answers with a valid stream in custom chunks.
func chunks(body func(a api) string) func(*wire, api) {
	return func(w *wire, a api) {
		w.send(chunkedHead + body(a))
		w.fin()
	}
}

// flooding answers with the text of before, and then repeats a text without end.
func flooding(before func(a api) string, again func(a api) string) func(*wire, api) {
	return func(w *wire, a api) {
		w.send(before(a))
		w.flood(again(a))
	}
}

func text(s string) func(api) string { return func(api) string { return s } }

// used answers with a valid stream that has a wrong usage.
func used(change func(u *usage)) func(*wire, api) {
	return body(func(a api) string {
		u := a.truth()
		change(&u)
		return a.stream(u)
	})
}

func output(n string) func(*usage) { return func(u *usage) { u.output = n } }
func input(n string) func(*usage)  { return func(u *usage) { u.input = n } }
func cached(n string) func(*usage) { return func(u *usage) { u.cached = n } }

// transportFaults are faults of connections and of HTTP, and answers without end, which are the same for all APIs;
// apiFaults are those of what an API reads. faults are all faults that end by themselves.
var (
	transportFaults = slicesOf(connectionFaults, headFaults, chunkFaults, floods, leavers)
	apiFaults       = slicesOf(statusFaults, bodyFaults, eventFaults, errorFaults, usageFaults)
	faults          = slicesOf(transportFaults, apiFaults)
)

// securely returns the faults of servers with TLS: faults in an answer, and faults of TLS.
func securely(faults []fault) (out []fault) {
	for _, f := range faults {
		if f.handle == nil {
			out = append(out, f)
		}
	}
	return append(out, secureFaults...)
}

func slicesOf(lists ...[]fault) (all []fault) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// connectionFaults are those of servers that hang up, or send something unexpected.
var connectionFaults = []fault{
	{name: "closes what it accepts", class: always(connect + "|" + cutStream),
		handle: func(w *wire, _ api) { w.fin() }},
	{name: "resets what it accepts", class: always(connect + "|" + cutStream), handle: func(w *wire, _ api) {
		if w.first() { // the agent's check that the port is open: a reset would mean it is closed
			w.hang()
			return
		}
		w.reset()
	}},
	{name: "hangs up without a word", class: always(cutStream), answer: raw("")},
	{name: "resets without a word", class: always(cutStream), answer: func(w *wire, _ api) { w.reset() }},
	{name: "hangs up within the status line", class: always(cutStream), answer: raw("HTTP/1.")},
	{name: "hangs up within the head", class: always(cutStream), answer: raw(okLine + "Content-Type: text/ev")},
	{name: "hangs up behind the head", class: always(cutStream), answer: raw(chunkedHead)},
	{name: "hangs up among tokens", class: always(cutStream), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.start(2)))
		w.fin()
	}},
	{name: "resets among tokens", class: always(cutStream), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.start(2)))
		w.reset()
	}},
	{name: "resets an answer without a length", class: always(cutStream), answer: func(w *wire, a api) {
		w.send(endlessHead + a.start(2))
		w.reset()
	}},
	{name: "hangs up within a frame", class: always(cutStream), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.start(1)+a.token(1, words[1])[:20]))
		w.fin()
	}},
	{name: "hangs up behind the finish reason", class: always(cutStream), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.start(3)+a.tail("length", a.truth())))
		w.fin()
	}, apis: hasMark},
	{name: "hangs up behind the end", class: byMark(completed, cutStream), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.sound()))
		w.fin()
	}},
	{name: "resets behind the end", class: byMark(completed, cutStream), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.sound()))
		w.reset()
	}},
	{name: "closes after each answer without saying so", class: always(completed), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.sound()) + lastChunk)
		w.fin()
	}},
	{name: "junk behind the answer", class: always(completed), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.sound()) + lastChunk + "junk")
	}},
	{name: "a second answer behind the first", class: always(completed), answer: func(w *wire, a api) {
		w.send(chunkedHead + chunk(a.sound()) + lastChunk + sized("500 Internal Server Error", "text/plain",
			"not yours"))
	}},
	{name: "answers before it has read", class: always(completed), handle: func(w *wire, a api) {
		if _, err := w.reader.ReadString('\n'); err == nil {
			w.send(endlessHead + a.sound())
			_ = w.tcp.CloseWrite() // The client may have left.
			w.hang()
		}
	}},
}

// leavers accept the connection with which an agent checks that the server is there, and no other.
var leavers = []fault{
	{name: "takes no more connections", class: always(connect), handle: func(w *wire, _ api) {
		w.leave()
		w.fin()
	}},
}

// secureFaults are those of servers with TLS.
var secureFaults = []fault{
	{name: "ends without a goodbye", class: byMark(completed, cutStream), answer: func(w *wire, a api) {
		w.send(endlessHead + a.sound())
		w.closed = true
		_ = w.tcp.Close() // The client may have closed it before.
	}},
	{name: "takes the first handshake only", class: always(badTLS), handle: func(w *wire, _ api) {
		if w.first() {
			w.hang()
			return
		}
		_, _ = w.tcp.Write([]byte("rubbish, and no handshake")) // As above.
		w.fin()
	}},
}

// headFaults are faults before the body.
var headFaults = []fault{
	{name: "rubbish", class: always(badFrame), answer: raw("\x00\x01\x02\xff\xferubbish\r\n\r\n")},
	{name: "another protocol", class: always(badFrame), answer: raw("SSH-2.0-OpenSSH_9.6\r\n")},
	{name: "a page without a head", class: always(badFrame), answer: raw("<html><body>busy</body></html>\r\n\r\n")},
	{name: "HTTP/2 frames", class: always(badFrame),
		answer: raw("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")},
	{name: "status 099", class: always(outOfRange), answer: raw("HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n")},
	{name: "status 000", class: always(outOfRange), answer: raw("HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n")},
	{name: "status 99", class: always(outOfRange), answer: raw("HTTP/1.1 99 Short\r\nContent-Length: 0\r\n\r\n")},
	{name: "status 1000", class: always(outOfRange), answer: raw("HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n")},
	{name: "a status of letters", class: always(badFrame), answer: raw("HTTP/1.1 2OO OK\r\nContent-Length: 0\r\n\r\n")},
	{name: "no status", class: always(badFrame), answer: raw("HTTP/1.1\r\nContent-Length: 0\r\n\r\n")},
	{name: "no reason", class: always(completed), answer: head("HTTP/1.1 200\r\n" + eventStream + "\r\n")},
	{name: "HTTP/1.0", class: always(completed), answer: head("HTTP/1.0 200 OK\r\n" + eventStream + "\r\n")},
	{name: "no content type", class: always(completed), answer: head(okLine + "\r\n")},
	{name: "text/plain", class: always(completed), answer: head(okLine + "Content-Type: text/plain\r\n\r\n")},
	{name: "a folded header", class: always(completed),
		answer: head(okLine + "X-A: b\r\n c\r\n" + eventStream + "\r\n")},
	{name: "1000 headers", class: always(completed),
		answer: head(okLine + strings.Repeat("X-A: b\r\n", 1000) + eventStream + "\r\n")},
	{name: "a header of 300 KiB", class: always(badFrame),
		answer: head(okLine + "X-A: " + strings.Repeat("b", 300<<10) + "\r\n" + eventStream + "\r\n")},
	{name: "a header without a colon", class: always(badFrame),
		answer: head(okLine + "nonsense\r\n" + eventStream + "\r\n")},
	{name: "two lengths", class: always(badFrame),
		answer: head(okLine + eventStream + "Content-Length: 5\r\nContent-Length: 7\r\n\r\n")},
	{name: "a length below 0", class: always(badFrame),
		answer: head(okLine + eventStream + "Content-Length: -1\r\n\r\n")},
	{name: "a length of letters", class: always(badFrame),
		answer: head(okLine + eventStream + "Content-Length: many\r\n\r\n")},
	{name: "a length that is too large", class: byMark(completed, cutStream),
		answer: head(okLine + eventStream + "Content-Length: 1000000\r\n\r\n")},
	{name: "a length that is too small", class: func(a api) string {
		if a.name == "triton" { // its end is the end of the response
			return completed
		}
		return cutStream
	}, tokens: number(1), answer: func(w *wire, a api) {
		w.send(fmt.Sprintf("%s%sContent-Length: %d\r\n\r\n%s", okLine, eventStream, len(a.start(1)), a.sound()))
		w.fin()
	}},
	{name: "a length and chunks", class: always(completed), answer: func(w *wire, a api) {
		w.send(okLine + eventStream + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunk(a.sound()) + lastChunk)
	}},
	{name: "an unknown transfer encoding", class: always(badFrame),
		answer: head(okLine + eventStream + "Transfer-Encoding: gzip, chunked\r\n\r\n")},
	{name: "gzip", class: always(badFrame), answer: head(okLine + eventStream + "Content-Encoding: gzip\r\n\r\n")},
	{name: "br", class: always(badFrame), answer: head(okLine + eventStream + "Content-Encoding: br\r\n\r\n")},
	{name: "identity", class: always(completed),
		answer: head(okLine + eventStream + "Content-Encoding: identity\r\n\r\n")},
	{name: "100 first", class: always(completed), answer: head("HTTP/1.1 100 Continue\r\n\r\n" + endlessHead)},
	{name: "103 three times first", class: always(completed),
		answer: head(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 3) + endlessHead)},
	{name: "101", class: always(badFrame),
		answer: raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")},
}

// chunkFaults are faults in how a body is split into chunks.
var chunkFaults = []fault{
	{name: "a chunk size of letters", class: always(badFrame),
		answer: chunks(func(a api) string { return chunk(a.start(1)) + "zz\r\n" })},
	{name: "a huge chunk size", class: always(badFrame),
		answer: chunks(func(a api) string { return chunk(a.start(1)) + "fffffffffffffffff\r\n" })},
	{name: "a chunk size below 0", class: always(badFrame),
		answer: chunks(func(a api) string { return chunk(a.start(1)) + "-5\r\n" })},
	{name: "no line end behind a chunk", class: always(badFrame), answer: chunks(func(a api) string {
		return strings.TrimSuffix(chunk(a.start(1)), "\r\n") + chunk(a.start(1))
	})},
	{name: "chunk extensions", class: always(completed), answer: chunks(func(a api) string {
		return strings.Replace(chunk(a.sound()), "\r\n", ";a=b;c=\"d\"\r\n", 1) + lastChunk
	})},
	{name: "one byte a chunk", class: always(completed), answer: chunks(func(a api) string {
		var b strings.Builder
		for i := range len(a.sound()) {
			b.WriteString(chunk(a.sound()[i : i+1]))
		}
		return b.String() + lastChunk
	})},
	{name: "trailers", class: always(completed),
		answer: chunks(func(a api) string { return chunk(a.sound()) + "0\r\nX-Usage: 7\r\n\r\n" })},
	{name: "rubbish behind the end", class: byMark(completed, badFrame),
		answer: chunks(func(a api) string { return chunk(a.sound()) + "rubbish\r\n" })},
}

// statusFaults are answers with a status other than 200.
var statusFaults = func() (all []fault) {
	for _, line := range []string{
		"201 Created", "202 Accepted", "206 Partial Content", "300 Multiple Choices", "400 Bad Request",
		"401 Unauthorized", "402 Payment Required",
		"403 Forbidden", "404 Not Found", "405 Method Not Allowed", "408 Request Timeout", "409 Conflict",
		"413 Content Too Large",
		"415 Unsupported Media Type", "422 Unprocessable Entity", "429 Too Many Requests", "500 Internal Server Error",
		"501 Not Implemented",
		"502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout", "529 Overloaded", "600 Unknown",
		"999 Denied",
	} {
		all = append(all, fault{name: line, class: always("http_" + line[:3]), answer: status(line)})
	}
	for _, line := range []string{"301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect",
		"308 Permanent Redirect"} {
		all = append(all, fault{name: line, class: always("http_" + line[:3]), answer: func(w *wire, a api) {
			status(line, "Location: "+w.trap+"\r\n")(w, a)
		}})
	}
	return append(all,
		fault{name: "204 No Content", class: always("http_204"),
			answer: func(w *wire, _ api) { w.send("HTTP/1.1 204 No Content\r\n\r\n") }},
		fault{name: "304 Not Modified", class: always("http_304"),
			answer: func(w *wire, _ api) { w.send("HTTP/1.1 304 Not Modified\r\n\r\n") }},
		fault{name: "500 with a stream", class: always("http_500"),
			answer: head("HTTP/1.1 500 Internal Server Error\r\n" + eventStream + "\r\n")},
		fault{name: "503 that is cut", class: always("http_503"),
			answer: raw("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nbu")},
		fault{name: "502 of 1 MiB", class: always("http_502"), answer: func(w *wire, _ api) {
			w.send(sized("502 Bad Gateway", "text/html", strings.Repeat("<html>", 1<<20/6)))
		}},
	)
}()

// bodyFaults are bodies that are not a stream.
var bodyFaults = []fault{
	{name: "a page", class: always(badFrame),
		answer: func(w *wire, _ api) { w.send(sized("200 OK", "text/html", "<html>busy</html>\n")) }},
	{name: "nothing", class: byMark(cutStream, emptyOutput),
		answer: func(w *wire, _ api) { w.send(sized("200 OK", "text/event-stream", "")) }},
	{name: "a picture", class: always(badFrame),
		answer: func(w *wire, _ api) { w.send(sized("200 OK", "image/png", "\x89PNG\r\n\x1a\n\x00\x00")) }},
	{name: "one piece", class: always(completed), answer: func(w *wire, a api) { whole(a.whole)(w, a) },
		tokens: func(a api) uint64 {
			if !a.usage { // so its output is not known
				return 0
			}
			return a.tokens()
		}},
	{name: "an error in one piece", class: always(streamError),
		answer: func(w *wire, a api) { whole(a.refusal)(w, a) }},
	{name: "one piece that is cut", class: always(cutStream), answer: func(w *wire, a api) {
		w.send(strings.TrimSuffix(sized("200 OK", "application/json", a.whole), `}`))
		w.fin()
	}},
	{name: "half of one piece", class: always(badFrame),
		answer: func(w *wire, a api) { whole(a.whole[:len(a.whole)/2])(w, a) }},
	{name: "two pieces", class: always(badFrame), answer: func(w *wire, a api) { whole(a.whole+"\n"+a.whole)(w, a) }},
	{name: "JSON that holds nothing", class: always(emptyOutput), answer: whole("{}")},
	{name: "JSON null", class: always(badFrame), answer: whole("null")},
	{name: "a JSON array", class: always(badFrame), answer: whole("[]")},
	{name: "a JSON number", class: always(badFrame), answer: whole("42")},
	{name: "a JSON string", class: always(badFrame), answer: whole(`"one two three"`)},
	{name: "JSON without a byte", class: always(badFrame), answer: whole("")},
	{name: "JSON that nests", class: always(badFrame), answer: whole(`{"choices":` + strings.Repeat("[", 200_000))},
	{name: "a stream that is called JSON", class: always(badFrame),
		answer: func(w *wire, a api) { whole(a.sound())(w, a) }},
	{name: "JSON that is called a stream", class: always(badFrame),
		answer: func(w *wire, a api) { w.send(sized("200 OK", "text/event-stream", a.whole)) }},
}

// oddWords are texts of a token, as in JSON, none of which is an error.
var oddWords = [][2]string{
	{"a NUL", `\u0000`}, {"half a character", "\xf0\x9f"}, {"half a surrogate pair", `\ud83d`},
	{"escapes", `\"\\\/\b\f\n\r\t\u00e9`},
	{"a terminal's commands", `\u001b[2J\u001b[31m`}, {"64 KiB", strings.Repeat("long ", 13_000)},
}

// eventFaults are faults in the events of a stream.
var eventFaults = slicesOf([]fault{
	{name: "ends without a token", class: func(a api) string {
		if a.endToken > 0 { // the end is a token
			return completed
		}
		return emptyOutput
	}, tokens: number(1), answer: body(func(a api) string {
		u := usage{"11", "4", fmt.Sprint(a.endToken)}
		return strings.ReplaceAll(a.lead+a.tail("stop", u)+a.mark("stop", u), strings.Join(words, ""), "")
	})},
	{name: "ends at once", class: always(emptyOutput), apis: hasMark,
		answer: body(func(a api) string { return a.mark("stop", usage{"11", "4", "0"}) })},
	{name: "ends in order among tokens", class: func(a api) string {
		if a.name == "triton" { // as above
			return completed
		}
		return cutStream
	}, tokens: number(2), answer: body(func(a api) string { return a.start(2) })},
	{name: "ends without its mark", class: func(a api) string {
		if a.tellsFinish {
			return completed
		}
		return cutStream
	}, apis: hasMark, answer: body(api.unended)},
	{name: "ends without an empty line", class: always(completed),
		answer: body(func(a api) string { return strings.TrimRight(a.sound(), "\n") })},
	{name: "continues after its end", class: always(completed), apis: hasMark,
		answer: body(func(a api) string { return a.sound() + a.start(3) + a.fault + "rubbish\n" })},
	{name: "a frame that is not JSON", class: always(badFrame), answer: behind(1, event("{oops}"))},
	{name: "a frame that is cut", class: always(badFrame), answer: behind(1, event(`{"a":`))},
	{name: "a frame of NaN", class: always(badFrame), answer: behind(1, event(`{"a":NaN}`))},
	{name: "a frame of null", class: always(badFrame), answer: behind(1, event("null"))},
	{name: "a frame of a list", class: always(badFrame), answer: behind(1, event("[]"))},
	{name: "a frame of a number", class: always(badFrame), answer: behind(1, event("42"))},
	{name: "a frame of a string", class: always(badFrame), answer: behind(1, event(`"one"`))},
	{name: "a frame of two objects", class: always(badFrame), answer: behind(1, event("{}{}"))},
	{name: "a frame that nests", class: always(badFrame),
		answer: behind(1, event(`{"a":`+strings.Repeat("[", 100_000)))},
	{name: "a frame of 2 MiB", class: always(badFrame),
		answer: behind(1, event(`{"a":"`+strings.Repeat("b", 2<<20)+`"}`))},
	{name: "a page among tokens", class: always(badFrame), answer: behind(1, "<html>504 Gateway Time-out</html>\n")},
	{name: "a control character in a text", class: always(badFrame), answer: behind(1, event("{\"a\":\"\x01\"}"))},
	{name: "an empty object", class: always(completed), answer: behind(1, event("{}"))},
	{name: "an unknown event", class: always(completed),
		answer: behind(1, "event: ping\n"+event(`{"type":"ping","x":{"text":"y"}}`))},
	{name: "an event without data", class: always(completed), answer: behind(1, "data:\n\ndata\n\nevent: x\n\n")},
	{name: "a number of 400 digits", class: always(completed),
		answer: behind(1, event(`{"logprob":-`+strings.Repeat("9", 400)+`,"x":1e999999}`))},
	{name: "comments and fields", class: always(completed),
		answer: behind(1, ": keep-alive\n\nid: 7\nretry: 10\nx-y: z\n\n")},
	{name: "carriage returns", class: always(completed),
		answer: body(func(a api) string { return strings.ReplaceAll(a.sound(), "\n", "\r") })},
	{name: "both line ends", class: always(completed),
		answer: body(func(a api) string { return strings.ReplaceAll(a.sound(), "\n", "\r\n") })},
	{name: "a byte order mark", class: always(completed),
		answer: body(func(a api) string { return "\ufeff" + a.sound() })},
	{name: "data in several lines", class: always(completed),
		answer: body(func(a api) string { return strings.ReplaceAll(a.sound(), `,"`, ",\ndata: \"") })},
	{name: "a finish reason of 100 KB", class: always(completed), apis: tellsUsage,
		answer: finishing(strings.Repeat("stop", 25_000))},
	{name: "a finish reason of control characters", class: always(completed), apis: tellsUsage,
		answer: finishing("\x1b[2J\n\x00|")},
}, func() (all []fault) {
	for _, odd := range oddWords {
		name, word := odd[0], odd[1]
		all = append(all, fault{name: "a text of " + name, class: always(completed), answer: body(func(a api) string {
			return strings.ReplaceAll(a.sound(), words[2][1:], word)
		})})
	}
	return all
}())

// finishing answers with a valid stream except for its finish reason.
func finishing(reason string) func(*wire, api) {
	return body(func(a api) string { return a.start(3) + a.tail(reason, a.truth()) + a.mark(reason, a.truth()) })
}

// errorFaults are errors within a stream.
var errorFaults = []fault{
	{name: "an error before the first token", class: always(streamError),
		answer: body(func(a api) string { return a.fault })},
	{name: "an error among tokens", class: always(streamError),
		answer: body(func(a api) string { return a.start(2) + a.fault })},
	{name: "an error, and then more", class: always(streamError),
		answer: body(func(a api) string { return a.start(1) + a.fault + a.start(3) + a.unended() })},
	{name: "an error behind the finish reason", class: always(streamError), apis: hasMark,
		answer: body(func(a api) string { return a.unended() + a.fault })},
	{name: "an error of words alone", class: always(streamError),
		answer: behind(1, event(`{"error":"out of memory"}`))},
	{name: "an error of a number alone", class: always(streamError),
		answer: behind(1, event(`{"error":{"code":500}}`))},
	{name: "an error of 100 KB", class: always(streamError),
		answer: behind(1, event(`{"error":{"message":"`+strings.Repeat("bad ", 25_000)+`"}}`))},
	{name: "an error of control characters", class: always(streamError),
		answer: behind(1, event(`{"error":{"message":"\u001b[2J\u0000\n"}}`))},
	{name: "an error that is named", class: always(streamError),
		answer: behind(1, "event: error\n"+event(`{"message":"out of memory"}`))},
	{name: "an error of vLLM's old form", class: always(streamError), apis: isOpenAI,
		answer: behind(1, event(`{"object":"error","message":"out of memory"}`))},
	{name: "no error", class: always(completed), answer: behind(1, event(`{"error":null}`)+event(`{"error":""}`)+
		event(`{"error":{}}`))},
}

// usageFaults are faults in the numbers that a server sends.
var usageFaults = func() (all []fault) {
	tell := func(name, class string, change func(*usage), apis func(api) bool, tokens func(api) uint64) {
		all = append(all, fault{name: name, class: always(class), answer: used(change), apis: apis, tokens: tokens})
	}
	for _, n := range []string{"16777217", "4294967301", "70000000000", "1e15", "9223372036854775807",
		"18446744073709551616", "1e400"} {
		tell(n+" tokens", outOfRange, output(n), tellsUsage, nil)
	}
	for _, n := range []string{"16777217", "4294967301", "18446744073709551616"} {
		tell("a prompt of "+n+" tokens", outOfRange, input(n), tellsUsage, nil)
	}
	tell("99999999999 cached tokens", outOfRange, cached("99999999999"), tellsCached, nil)
	for _, n := range []string{"0", "-5", `"5"`, "1.5", "null", "true", "[]", "{}"} {
		tell(n+" tokens", completed, output(n), tellsUsage, nil)
	}
	tell("3.0 tokens", completed, output("3.0"), tellsUsage, number(3))
	tell("1 token", completed, output("1"), tellsUsage, number(1))
	tell("1000 tokens", completed, output("1000"), tellsUsage, number(1000))
	tell("16777216 tokens", completed, output("16777216"), tellsUsage, number(16777216))
	tell("more cached tokens than there are", completed, cached("5000"), tellsCached, nil)
	return all
}()

// floods are endless answers.
var floods = []fault{
	{name: "tokens without end", class: always(runaway),
		answer: flooding(text(endlessHead), func(a api) string { return a.token(0, words[0]) })},
	{name: "chunks of tokens without end", class: always(runaway),
		answer: flooding(text(chunkedHead), func(a api) string { return chunk(a.token(0, words[0])) })},
	{name: "large tokens without end", class: always(runaway),
		answer: flooding(text(endlessHead), func(a api) string { return a.token(0, strings.Repeat("long ", 10_000)) })},
	{name: "empty objects without end", class: always(runaway), answer: flooding(text(endlessHead), text(event("{}")))},
	{name: "newlines without end", class: always(runaway),
		answer: flooding(func(a api) string { return endlessHead + a.start(1) }, text("\n"))},
	{name: "carriage returns without end", class: always(runaway),
		answer: flooding(func(a api) string { return endlessHead + a.start(1) }, text("\r"))},
	{name: "comments without end", class: always(runaway), answer: flooding(text(endlessHead), text(": comment\n\n"))},
	{name: "fields without end", class: always(runaway), answer: flooding(text(endlessHead), text("x: y\n\n"))},
	{name: "a line without end", class: always(badFrame),
		answer: flooding(text(endlessHead), text("data: aaaaaaaaaaaaaaa"))},
	{name: "an event without end", class: always(badFrame), answer: flooding(text(endlessHead), text("data: {}\n"))},
	{name: "JSON without end", class: always(runaway),
		answer: flooding(text(okLine+"Content-Type: application/json\r\n\r\n{"), text(" "))},
	{name: "a head without end", class: always(badFrame), answer: flooding(text(okLine), text("X-A: b\r\n"))},
	{name: "a status line without end", class: always(badFrame), answer: flooding(text("HTTP/1.1 200 "), text("OK"))},
	{name: "interim answers without end", class: always(badFrame),
		answer: flooding(text(""), text("HTTP/1.1 100 Continue\r\n\r\n"))},
	{name: "a chunk size without end", class: always(badFrame), answer: flooding(text(chunkedHead), text("0"))},
	{name: "a chunk extension without end", class: always(badFrame),
		answer: flooding(text(chunkedHead+"5;"), text("a"))},
	{name: "an HTTP error without end", class: always("http_500"),
		answer: flooding(text("HTTP/1.1 500 Internal Server Error\r\n\r\n"), text("no "))},
	{name: "tokens without end behind the end", class: always(completed), apis: api.marked,
		answer: flooding(func(a api) string { return endlessHead + a.sound() },
			func(a api) string { return a.token(0, words[0]) })},
	{name: "trailers without end", class: byMark(completed, badFrame),
		answer: flooding(func(a api) string { return chunkedHead + chunk(a.sound()) + "0\r\n" }, text("X-A: b\r\n"))},
}

// hangs are answers that only a timeout ends, or that stall after all that is needed. They get one second.
var hangs = []fault{
	{name: "silence", class: always(timeout), answer: holding(func(api) string { return "" })},
	{name: "silence within the status line", class: always(timeout), answer: holding(text("HTTP/1.1 2"))},
	{name: "silence within the head", class: always(timeout), answer: holding(text(okLine + "Content-Ty"))},
	{name: "silence behind an interim answer", class: always(timeout),
		answer: holding(text("HTTP/1.1 103 Early Hints\r\n\r\n"))},
	{name: "silence behind the head", class: always(timeout), answer: holding(text(chunkedHead))},
	{name: "silence within a chunk's size", class: always(timeout),
		answer: holding(func(a api) string { return chunkedHead + chunk(a.start(1)) + "1" })},
	{name: "silence before the first token", class: always(timeout),
		answer: holding(func(a api) string { return chunkedHead + chunk(a.lead) })},
	{name: "silence among tokens", class: always(timeout),
		answer: holding(func(a api) string { return chunkedHead + chunk(a.start(2)) })},
	{name: "silence within a frame", class: always(timeout),
		answer: holding(func(a api) string { return endlessHead + a.start(1) + "data: {" })},
	{name: "silence behind the finish reason", class: always(timeout), apis: hasMark,
		answer: holding(func(a api) string { return chunkedHead + chunk(a.unended()) })},
	{name: "silence behind the end", class: byMark(completed, timeout),
		answer: holding(func(a api) string { return chunkedHead + chunk(a.sound()) })},
	{name: "silence within one piece", class: always(timeout), answer: holding(func(a api) string {
		return strings.TrimSuffix(sized("200 OK", "application/json", a.whole), "}")
	})},
	{name: "silence within an HTTP error", class: always("http_503"),
		answer: holding(text("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 100\r\n\r\nbusy"))},
	{name: "reads nothing", class: always(timeout), handle: func(w *wire, _ api) { w.wait() }},
	{name: "a head byte by byte", class: always(timeout), answer: dripping(text(okLine), text("X"))},
	{name: "comments now and then", class: always(timeout),
		answer: dripping(func(a api) string { return endlessHead + a.start(1) }, text(": keep-alive\n\n"))},
	{name: "newlines now and then", class: always(timeout),
		answer: dripping(func(a api) string { return endlessHead + a.start(1) }, text("\n"))},
	{name: "a frame byte by byte", class: always(timeout),
		answer: dripping(func(a api) string { return endlessHead + a.start(1) + "data: " }, text("x"))},
	{name: "tokens now and then", class: always(timeout),
		answer: dripping(text(endlessHead), func(a api) string { return a.token(0, words[0]) })},
	{name: "events without tokens now and then", class: always(timeout),
		answer: dripping(text(endlessHead), text(event("{}")))},
}

// holding answers with some text and then nothing more.
func holding(before func(a api) string) func(*wire, api) {
	return func(w *wire, a api) {
		w.send(before(a))
		w.hang()
	}
}

// dripping answers with the text of before, and then repeats a text ten times per second.
func dripping(before, again func(a api) string) func(*wire, api) {
	return func(w *wire, a api) {
		w.send(before(a))
		for w.send(again(a)) {
			w.pause()
		}
		w.fin()
	}
}
