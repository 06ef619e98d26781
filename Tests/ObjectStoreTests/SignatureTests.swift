import HaulContract
import Testing

@testable import HaulObjectStore

/// Compares with Amazon's published examples ("Signature Calculations for the Authorization Header", Amazon S3 API
/// Reference).
@Suite struct SignatureTests {
    private let signature = Signature(
        credentials: Credentials(
            accessKey: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region: "us-east-1", time: 1_369_353_600)
    private static let host = "examplebucket.s3.amazonaws.com"
    private static let nothing = Hexadecimal.text(Digest.sha256([]))

    private func sign(_ request: Signature.SignedRequest) -> String? {
        signature.fields(for: request).first { $0.name == "Authorization" }.flatMap {
            $0.value.split(separator: "Signature=").last.map(String.init)
        }
    }

    @Test("a GET of a range is signed as in Amazon's example") func range() {
        let request = Signature.SignedRequest(
            method: "GET", host: Self.host, path: "/test.txt", headers: [HeaderField("Range", "bytes=0-9")],
            payload: Self.nothing)
        #expect(sign(request) == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
    }

    @Test("a PUT of an object with an odd name is signed as in Amazon's example") func put() {
        let request = Signature.SignedRequest(
            method: "PUT", host: Self.host, path: "/test$file.text",
            headers: [
                HeaderField("Date", "Fri, 24 May 2013 00:00:00 GMT"),
                HeaderField("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ],
            payload: Hexadecimal.text(Digest.sha256("Welcome to Amazon S3.".utf8)))
        #expect(sign(request) == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
    }

    @Test("a query without a value is signed as in Amazon's example") func lifecycle() {
        let request = Signature.SignedRequest(
            method: "GET", host: Self.host, path: "/", query: [("lifecycle", "")], payload: Self.nothing)
        #expect(sign(request) == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
    }

    @Test("a listing is signed as in Amazon's example") func list() {
        let request = Signature.SignedRequest(
            method: "GET", host: Self.host, path: "/", query: [("prefix", "J"), ("max-keys", "2")],
            payload: Self.nothing)
        #expect(sign(request) == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
    }

    @Test("the session token is sent and signed") func token() throws {
        let with = Signature(
            credentials: Credentials(accessKey: "A", secret: "B", token: "the token"), region: "r", time: 0)
        let fields = with.fields(
            for: Signature.SignedRequest(method: "GET", host: "h", path: "/", payload: Self.nothing))
        #expect(fields.contains(HeaderField("x-amz-security-token", "the token")))
        let authorization = try #require(fields.first { $0.name == "Authorization" })
        #expect(
            authorization.value.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"))
    }

    @Test("a request that expires is signed as in Amazon's example") func expiring() {
        let signature = Signature(
            credentials: Credentials(
                accessKey: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            region: "us-east-1", time: 1_369_353_600)
        let request = Signature.SignedRequest(
            method: "GET", host: "examplebucket.s3.amazonaws.com", path: "/test.txt", payload: Signature.emptyPayload)
        let items = signature.query(for: request, validFor: 86_400)
        #expect(
            items.last?.1 == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
                && items.contains { $0 == ("X-Amz-Expires", "86400") })
    }

    @Test("HMAC-SHA256 matches RFC 4231") func hmac() {
        #expect(
            Hexadecimal.text(Digest.hmac(Array("Jefe".utf8), "what do ya want for nothing?"))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    }

    @Test("base64 matches RFC 4648") func base64() {
        let pairs = [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ]
        for (text, encoded) in pairs { #expect(Base64.encode(text.utf8) == encoded) }
    }

    @Test("names are percent-encoded by bytes, in upper case") func encoding() {
        #expect(URIText.encode("a/b ~é+") == "a%2Fb%20~%C3%A9%2B")
        #expect(URIText.path("/a b/c") == "/a%20b/c")
        #expect(URIText.query([("uploads", ""), ("a", "1 2"), ("a-b", "3")]) == "a=1%202&a-b=3&uploads=")
    }

    @Test("times are written and read as Amazon does") func times() {
        #expect(AmazonTime.stamp(1_369_353_600) == "20130524T000000Z")
        #expect(AmazonTime.seconds("2013-05-24T00:00:00.000Z") == 1_369_353_600)
        #expect(AmazonTime.seconds("2013-05-24T00:00:01Z") == 1_369_353_601)
        for wrong in ["", "yesterday", "2013-05-24", "2013-13-24T00:00:00Z", "2013-05-24T00:00:00+02:00"] {
            #expect(AmazonTime.seconds(wrong) == nil)
        }
    }
}
